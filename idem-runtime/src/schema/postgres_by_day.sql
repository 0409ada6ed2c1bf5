CREATE TABLE IF NOT EXISTS processed_messages_by_day (
  consumer     text COLLATE "C" NOT NULL,
  message_id   text COLLATE "C" NOT NULL,
  day          date             NOT NULL, -- of the message's `time`, in UTC
  processed_at timestamptz      NOT NULL DEFAULT now(),
  fingerprint  bytea, -- of `fingerprint`
  result       text,  -- of `replay`
  PRIMARY KEY (consumer, message_id, day)
) PARTITION BY RANGE (day);
