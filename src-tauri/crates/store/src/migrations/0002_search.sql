-- Full-text search over what was said. `texts` holds the words, `words` is the
-- index over them. Trigrams find parts of words and text without spaces
-- between words (Chinese, Japanese) alike.

ALTER TABLE turns ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
-- What still waits to be indexed: turns of an older database, or of a program
-- that was killed in between.
CREATE INDEX turns_unindexed ON turns (id) WHERE indexed = 0 AND ended_at IS NOT NULL;

CREATE TABLE texts (
    id         INTEGER NOT NULL PRIMARY KEY,
    session_id TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn       INTEGER NOT NULL,
    role       TEXT    NOT NULL CHECK (role IN ('user', 'agent')),
    at         INTEGER NOT NULL,
    text       TEXT    NOT NULL,
    UNIQUE (session_id, turn, role)
) STRICT;
CREATE INDEX texts_by_time ON texts (at DESC);

CREATE VIRTUAL TABLE words USING fts5 (text, content = 'texts', content_rowid = 'id', tokenize = 'trigram');

CREATE TRIGGER texts_added AFTER INSERT ON texts BEGIN
    INSERT INTO words (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER texts_removed AFTER DELETE ON texts BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
END;
