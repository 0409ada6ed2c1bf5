CREATE TABLE IF NOT EXISTS processed_messages (
  consumer     text COLLATE "C" NOT NULL,
  message_id   text COLLATE "C" NOT NULL,
  processed_at timestamptz      NOT NULL DEFAULT now(),
  version      bigint, -- of `version`
  fingerprint  bytea,  -- of `fingerprint`
  result       text,   -- of `replay`
  PRIMARY KEY (consumer, message_id)
);
-- for the pruner: a BRIN index costs an insert next to nothing
CREATE INDEX IF NOT EXISTS processed_messages_processed_at ON processed_messages USING brin (processed_at);
