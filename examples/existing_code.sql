-- The team's tables, as they were before idem.
CREATE TABLE accounts (
  id      text   PRIMARY KEY,
  credits bigint NOT NULL
);
CREATE TABLE ledger (
  account text   NOT NULL REFERENCES accounts,
  amount  bigint NOT NULL
);
CREATE TABLE imports (
  file   text   NOT NULL,
  orders bigint NOT NULL
);
INSERT INTO accounts VALUES ('alice', 0), ('bob', 0);
