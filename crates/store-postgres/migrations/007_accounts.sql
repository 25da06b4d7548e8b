-- Changes of users and admin tokens are numbered too, so that each is made once over a failover. Their counter is 'usage': nodes
-- do not follow it, and nodes of the version before expect no other counter.

-- Users of the console. password is an Argon2id hash. The columns totp_* are null without a second factor; the secret of one
-- is derived from them with a digest key, which is not in here. generation changes whenever sessions have to end.
CREATE TABLE users (
    name                 text COLLATE "C" PRIMARY KEY,
    role                 text NOT NULL,
    created_at           bigint NOT NULL,
    disabled_at          bigint,
    password             text NOT NULL,
    must_change_password boolean NOT NULL,
    totp_key             text,
    totp_salt            text,
    totp_last_step       bigint,
    last_login_at        bigint,
    generation           text NOT NULL
);

-- Tokens of the admin API.
CREATE TABLE admin_tokens (
    place        bigint GENERATED ALWAYS AS IDENTITY,
    id           text COLLATE "C" PRIMARY KEY,
    hash         bytea NOT NULL UNIQUE,
    name         text NOT NULL,
    role         text NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint,
    last_used_at bigint
);
