import pg from 'pg';
import { plantOf, type Row } from './rows.ts';
import { serve } from './server.ts';

// A table in PostgreSQL, whose defaults commit durably, and pg's pool of ten connections.

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
await pool.query(`
  CREATE TABLE plants (
    position bigserial PRIMARY KEY, owner text NOT NULL, id bigint NOT NULL, name text NOT NULL, tag text,
    UNIQUE (owner, id)
  );
  CREATE INDEX ON plants (owner, position);
`);
const INSERT = {
  name: 'insert',
  text: 'INSERT INTO plants (owner, id, name, tag) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING',
};
const SELECT = {
  name: 'select',
  text: 'SELECT name, tag FROM plants WHERE owner = $1 ORDER BY position LIMIT $2',
};

await serve({
  async create(user, { id, name, tag }) {
    const { rowCount } = await pool.query({ ...INSERT, values: [user, id, name, tag ?? null] });
    return rowCount === 1;
  },
  async list(user, limit) {
    const { rows } = await pool.query<Row>({ ...SELECT, values: [user, limit] });
    return rows.map(plantOf);
  },
});
