import { fileSize, openReadOnly } from './sqlite.ts';

/** The log that the file of a view belongs to, and its position; undefined without a file or a log. @throws Error */
export function readViewCheckpoint(file: string): { logId: string; position: bigint } | undefined {
  if (fileSize(file) === 0) return undefined;
  using db = openReadOnly(file);
  const checkpoint = db.prepare('SELECT log_id AS logId, position FROM checkpoint');
  checkpoint.setReadBigInts(true);
  const saved = checkpoint.get() as { logId: string; position: bigint } | undefined;
  if (!saved) throw new Error('its checkpoint is missing');
  return saved.logId === '' ? undefined : saved;
}
