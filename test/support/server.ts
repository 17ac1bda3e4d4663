import { type AtEnd, tempDir } from '@event-sourced/testing/tempDir';
import { type Options, start } from './process.ts';
import { client } from './service.ts';

/** The service as a process on a free port, listening, with its data in `DATA_DIR` or a new directory. */
export async function startServer({ env = {}, ...options }: Options = {}, atEnd?: AtEnd) {
  const dir = env.DATA_DIR ?? tempDir(atEnd);
  const server = start({ ...options, env: { ...env, DATA_DIR: dir } }, atEnd);
  const url = await server.listening();
  return { ...server, url, dir, as: client(url, dir) };
}
