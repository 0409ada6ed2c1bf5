CREATE TABLE IF NOT EXISTS processed_messages (
  consumer     text COLLATE "C" NOT NULL,
  message_id   text COLLATE "C" NOT NULL,
  processed_at timestamptz      NOT NULL DEFAULT now(),
  version      bigint,
  fingerprint  bytea,
  result       text,
  PRIMARY KEY (consumer, message_id)
);
