import { setImmediate as nextTurn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { isDamage, type ViewFormat } from './viewDatabase.ts';
import type { Reply, Request, ThreadData } from './viewProtocol.ts';
import { ViewWriter } from './viewWriter.ts';

// A view's file is written on its own thread, so that no request waits for a page or an fsync. The thread also
// verifies the file that it has found, between requests.

/** Writes the file of a view of this format, on the thread of which this is called. */
export function runViewThread(format: ViewFormat): void {
  const port = parentPort as NonNullable<typeof parentPort>;
  const { file } = workerData as ThreadData;
  const writer = new ViewWriter(file, format);
  const post = (reply: Reply): void => port.postMessage(reply);
  port.on('message', (request: Request) => {
    if ('rows' in request) writer.add(request.rows);
    else if ('close' in request) {
      writer.close();
      port.close();
    } else post(writer.handle(request));
  });
  post({ opened: writer.checkpoint, readTo: writer.readTo, replaced: writer.replaced });
  void check(writer, post);
}

/** What cannot be read now is verified when it is. */
async function check(writer: ViewWriter, post: (reply: Reply) => void): Promise<void> {
  try {
    while (writer.checkMore()) await nextTurn();
  } catch (error) {
    if (isDamage(error)) post({ unsound: (error as Error).message });
  }
}
