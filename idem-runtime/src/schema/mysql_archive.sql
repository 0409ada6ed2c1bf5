CREATE TABLE IF NOT EXISTS processed_messages_archive (
  id           bigint          NOT NULL AUTO_INCREMENT PRIMARY KEY,
  consumer     varbinary(255)  NOT NULL,
  message_id   varbinary(1024) NOT NULL,
  processed_at timestamp(6)    NULL,
  fingerprint  varbinary(32)   NULL,
  result       mediumblob      NULL,
  archived_at  timestamp(6)    NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  KEY processed_messages_archive_message_id (consumer, message_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
