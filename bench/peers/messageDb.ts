import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { MemoryView } from './memoryView.ts';
import { type Plant, serve } from './server.ts';

// message-db: a stream per plant, and a view that polls the category, as its clients do.

const BATCH_SIZE = 1_000;
const POLL_INTERVAL_MS = 100;

const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  options: '-c search_path=message_store,public',
});
const view = new MemoryView();
void follow();

await serve({
  async create(user, plant) {
    const values = [crypto.randomUUID(), `plant-${user}/${plant.id}`, JSON.stringify({ user, ...plant })];
    const text = "SELECT write_message($1, $2, 'PlantCreated', $3, NULL, -1)";
    try {
      await pool.query({ name: 'write', text, values });
      return true;
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('Wrong expected version')) return false;
      throw error;
    }
  },
  list: (user, limit) => view.list(user, limit),
});

async function follow(): Promise<never> {
  const text = "SELECT global_position, data FROM get_category_messages('plant', $1, $2)";
  for (let next = '1'; ; ) {
    const { rows } = await pool.query<{ global_position: string; data: string }>({
      name: 'read',
      text,
      values: [next, BATCH_SIZE],
    });
    for (const { global_position, data } of rows) {
      view.apply(JSON.parse(data) as Plant & { user: string });
      next = `${BigInt(global_position) + 1n}`;
    }
    if (rows.length < BATCH_SIZE) await pause(POLL_INTERVAL_MS);
  }
}
