ALTER TABLE processed_messages ADD COLUMN version     integer;
ALTER TABLE processed_messages ADD COLUMN fingerprint blob;
ALTER TABLE processed_messages ADD COLUMN result      text;
CREATE INDEX IF NOT EXISTS processed_messages_processed_at ON processed_messages (consumer, processed_at);
