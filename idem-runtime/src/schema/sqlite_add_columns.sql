ALTER TABLE processed_messages ADD COLUMN version     integer;
ALTER TABLE processed_messages ADD COLUMN fingerprint blob;
ALTER TABLE processed_messages ADD COLUMN result      text;
