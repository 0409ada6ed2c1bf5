ALTER TABLE processed_messages
  ADD COLUMN IF NOT EXISTS version     bigint,
  ADD COLUMN IF NOT EXISTS fingerprint bytea,
  ADD COLUMN IF NOT EXISTS result      text;
CREATE INDEX IF NOT EXISTS processed_messages_processed_at ON processed_messages USING brin (processed_at);
