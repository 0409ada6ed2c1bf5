ALTER TABLE processed_messages
  ADD COLUMN IF NOT EXISTS version     bigint,
  ADD COLUMN IF NOT EXISTS fingerprint bytea,
  ADD COLUMN IF NOT EXISTS result      text;
