import { DatabaseSync } from 'node:sqlite';

// Reads and parses every event of a log. Usage: node bareLoop.ts LOG_FILE

using db = new DatabaseSync(process.argv[2] ?? '', { readOnly: true });
for (const { data, metadata } of db.prepare('SELECT * FROM events ORDER BY position').iterate()) {
  JSON.parse(String(data));
  JSON.parse(String(metadata));
}
