import { parentPort, workerData } from 'node:worker_threads';
import type { Reply, Request, ThreadData } from './viewProtocol.ts';
import { ViewWriter } from './viewWriter.ts';

// A view's file is written on its own thread, so that no request waits for a page or an fsync.

if (parentPort) {
  const port = parentPort;
  const writer = new ViewWriter(workerData as ThreadData);
  const post = (reply: Reply): void => port.postMessage(reply);
  port.on('message', (request: Request) => {
    if ('rows' in request) writer.add(request.rows);
    else if ('close' in request) {
      writer.close();
      port.close();
    } else post(writer.handle(request));
  });
  post({ opened: writer.checkpoint, replaced: writer.replaced });
}
