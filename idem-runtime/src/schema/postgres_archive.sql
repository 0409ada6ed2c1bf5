CREATE TABLE IF NOT EXISTS processed_messages_archive (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  consumer     text COLLATE "C" NOT NULL,
  message_id   text COLLATE "C" NOT NULL,
  day          date,
  processed_at timestamptz      NOT NULL,
  fingerprint  bytea,
  result       text,
  archived_at  timestamptz      NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS processed_messages_archive_message_id ON processed_messages_archive (consumer, message_id);
