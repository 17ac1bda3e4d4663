import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { browserOfFile, HAS_BROWSER } from '../support/browser.ts';

const { open } = browserOfFile();

/** A server of one page. */
async function serve(body: string): Promise<string> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end(`<link rel=icon href="data:,">${body}`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe.skipIf(!HAS_BROWSER)('the browser of the tests', () => {
  test('reports nothing of a page without problems', async () => {
    const url = await serve('<h1>Plants</h1>');
    const { page, requests, problems } = await open(url);
    expect(await page.$eval('h1', (heading) => heading.textContent)).toBe('Plants');
    expect(requests.filter((one) => one.startsWith('http'))).toEqual([`${url}/`]);
    expect(problems).toEqual([]);
  });

  test.each([
    ['<img src="http://other.example/x.png">', 'request to http://other.example'],
    ['<script>console.error("no soil")</script>', 'console: no soil'],
    ['<script>throw new Error("no sun")</script>', 'uncaught: Error: no sun'],
  ])('reports %s', async (body, problem) => {
    const { problems } = await open(await serve(body));
    expect(problems).toContainEqual(problem);
  });
});
