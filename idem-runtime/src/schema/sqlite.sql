CREATE TABLE IF NOT EXISTS processed_messages (
  consumer     text NOT NULL,
  message_id   text NOT NULL,
  processed_at text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  version      integer, -- of `version`
  fingerprint  blob,    -- of `fingerprint`
  result       text,    -- of `replay`
  PRIMARY KEY (consumer, message_id)
) WITHOUT ROWID;
-- for the pruner
CREATE INDEX IF NOT EXISTS processed_messages_processed_at ON processed_messages (consumer, processed_at);
