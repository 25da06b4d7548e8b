-- Users of the console. password is an Argon2id hash. The columns totp_* are null without a second factor; the secret of one
-- is derived from them with a digest key, which is not in here. generation changes whenever sessions have to end.
CREATE TABLE users (
    name                 TEXT PRIMARY KEY,
    role                 TEXT NOT NULL,
    created_at           INTEGER NOT NULL,
    disabled_at          INTEGER,
    password             TEXT NOT NULL,
    must_change_password INTEGER NOT NULL,
    totp_key             TEXT,
    totp_salt            TEXT,
    totp_last_step       INTEGER,
    last_login_at        INTEGER,
    generation           TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Tokens of the admin API.
CREATE TABLE admin_tokens (
    id           TEXT PRIMARY KEY,
    hash         BLOB NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    role         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT;
