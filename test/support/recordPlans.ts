import { appendFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

// A process loads this with --import, and so do its threads: each statement that it prepares is appended to the file
// PLANS, with the plan of SQLite (https://sqlite.org/eqp.html).

const { PLANS = '' } = process.env;
const { prepare } = DatabaseSync.prototype;

DatabaseSync.prototype.prepare = function (sql, ...options) {
  const rows = prepare.call(this, `EXPLAIN QUERY PLAN ${sql}`).all();
  appendFileSync(PLANS, `${JSON.stringify({ sql, plan: rows.map(({ detail }) => detail) })}\n`);
  return prepare.call(this, sql, ...options);
};
