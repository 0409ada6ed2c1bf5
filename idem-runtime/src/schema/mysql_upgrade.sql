ALTER TABLE processed_messages ADD COLUMN version     bigint        NULL;
ALTER TABLE processed_messages ADD COLUMN fingerprint varbinary(32) NULL;
ALTER TABLE processed_messages ADD COLUMN result      mediumblob    NULL;
ALTER TABLE processed_messages ADD COLUMN repeats     int unsigned  NULL;
ALTER TABLE processed_messages ADD INDEX processed_messages_processed_at (consumer, processed_at);
