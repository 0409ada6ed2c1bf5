CREATE TABLE IF NOT EXISTS processed_messages (
  consumer     varbinary(255)  NOT NULL,
  message_id   varbinary(1024) NOT NULL,
  processed_at timestamp(6)    NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  version      bigint          NULL, -- of `version`
  fingerprint  varbinary(32)   NULL, -- of `fingerprint`
  result       mediumblob      NULL, -- of `replay`
  repeats      int unsigned    NULL, -- how often `each`, `business_key` or `fingerprint` met it again
  PRIMARY KEY (consumer, message_id),
  KEY processed_messages_processed_at (consumer, processed_at) -- for the pruner
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
