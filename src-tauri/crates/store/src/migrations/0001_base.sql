-- Projects, agents, servers, sessions, turns, updates and settings.
-- Times are milliseconds since the Unix epoch; JSON columns are text.

CREATE TABLE projects (
    id         TEXT    NOT NULL PRIMARY KEY,
    path       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    last_used  INTEGER NOT NULL
) STRICT;
CREATE INDEX projects_by_use ON projects (last_used DESC, id);

CREATE TABLE agents (
    id       TEXT    NOT NULL PRIMARY KEY,
    config   TEXT    NOT NULL,
    saved_at INTEGER NOT NULL
) STRICT;

CREATE TABLE servers (
    name     TEXT    NOT NULL PRIMARY KEY,
    config   TEXT    NOT NULL,
    position INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    id            TEXT    NOT NULL PRIMARY KEY,
    acp_id        TEXT,
    project_id    TEXT    NOT NULL REFERENCES projects (id),
    agent         TEXT    NOT NULL,
    title         TEXT    NOT NULL,
    options       TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    last_activity INTEGER NOT NULL,
    closed        TEXT
) STRICT;
-- The list of sessions is read in this order; without it every look at the
-- list sorts the whole table.
CREATE INDEX sessions_by_activity ON sessions (last_activity DESC, id);
CREATE INDEX sessions_by_project ON sessions (project_id);

CREATE TABLE turns (
    id          TEXT    NOT NULL PRIMARY KEY,
    session_id  TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number      INTEGER NOT NULL,
    prompt      TEXT    NOT NULL,
    request_id  TEXT,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    stop_reason TEXT,
    description TEXT,
    UNIQUE (session_id, number)
) STRICT;
CREATE INDEX turns_open ON turns (id) WHERE ended_at IS NULL;

-- turn_id has no foreign key: a late update must not be lost because its turn
-- is written a moment later.
CREATE TABLE updates (
    session_id TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    turn_id    TEXT,
    at         INTEGER NOT NULL,
    json       TEXT    NOT NULL,
    PRIMARY KEY (session_id, seq)
) STRICT;
CREATE INDEX updates_by_turn ON updates (turn_id, seq);

CREATE TABLE settings (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
