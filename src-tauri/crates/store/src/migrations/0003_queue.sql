-- Prompts that wait for the turn before them: a program that is killed must not lose what it
-- has accepted. A row goes when its turn is saved, or when its user takes the prompt back.

CREATE TABLE queued (
    turn_id    TEXT    NOT NULL PRIMARY KEY,
    session_id TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    prompt     TEXT    NOT NULL,
    request_id TEXT,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX queued_by_session ON queued (session_id);
