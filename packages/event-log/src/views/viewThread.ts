import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { tableFormat } from './tableFormat.ts';
import { isDamage } from './viewDatabase.ts';
import type { Reply, Request, ThreadData } from './viewProtocol.ts';
import { ViewWriter } from './viewWriter.ts';

// The file of a view with a table is written on its own thread, so that no request waits for a page or an fsync. The
// thread also verifies the file that it has found, between requests.

const port = parentPort as NonNullable<typeof parentPort>;
const { file, table } = workerData as ThreadData;
const writer = new ViewWriter(file, tableFormat(table));
const post = (reply: Reply): void => port.postMessage(reply);

port.on('message', (request: Request) => {
  if ('rows' in request) writer.add(request.rows);
  else if ('close' in request) {
    writer.close();
    port.close();
  } else post({ id: request.id, ...writer.handle(request) });
});
const { checkpoint, readTo, replaced } = writer;
post({ id: 0, opened: { checkpoint, readTo, replaced } });
try {
  while (writer.checkMore()) await nextTurn();
} catch (error) {
  // What cannot be read now is verified when it is.
  if (isDamage(error)) post({ unsound: (error as Error).message });
}
