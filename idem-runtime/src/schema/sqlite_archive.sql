CREATE TABLE IF NOT EXISTS processed_messages_archive (
  id           integer PRIMARY KEY,
  consumer     text NOT NULL,
  message_id   text NOT NULL,
  processed_at text NOT NULL,
  fingerprint  blob,
  result       text,
  archived_at  text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
CREATE INDEX IF NOT EXISTS processed_messages_archive_message_id ON processed_messages_archive (consumer, message_id);
