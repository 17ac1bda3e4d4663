import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { named, openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import type { HTTPRequest, Page } from 'puppeteer-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { NO_STREAM } from '../../packages/event-log/src/eventStore.ts';
import { auditorToken } from '../support/eventStream.ts';
import { serviceOfFile, startService, startServiceWithTree } from '../support/service.ts';
import { auditPage, becomes, choose, click, erase, LIVE, NAMES, signs, submit, texts } from './auditPage.ts';
import { HAS_BROWSER, openPage } from './browser.ts';

// What the audit page shows is what is known: also when something cannot be asked, is unknown or missing.

const shared = await serviceOfFile({ MERKLE_TREE: 'on' });
const get = async (path: string): Promise<string> => (await shared.as('carol', 'audit').request(path)).text();

/** Handles the requests of a page to a path; others go on. */
async function intercept(page: Page, path: RegExp, handle: (request: HTTPRequest) => unknown): Promise<void> {
  await page.setRequestInterception(true);
  page.on('request', (request) =>
    path.test(request.url().slice(shared.url.length)) ? handle(request) : request.continue(),
  );
}

/** A log with events at these times. */
async function logOf(times: readonly number[]): Promise<string> {
  const dir = tempDir();
  const log = await openIn(dir);
  for (const [i, time] of times.entries()) {
    const metadata = { occurredAt: new Date(time).toISOString() };
    await log.append(`plant-bob/${i}`, { ...named('Oak'), metadata }, NO_STREAM);
  }
  await log.close();
  return dir;
}

const openCheck = async (page: Page, key: string): Promise<void> => {
  await click(page, 'nav [href="#check"]');
  await submit(page, '#check', { key });
};

describe.skipIf(!HAS_BROWSER)('the audit page', () => {
  beforeAll(async () => {
    await shared.as('bob').create(1, { name: 'Oak' });
    for (const [id, name] of ['Fern', 'Ivy', 'Moss'].entries()) await shared.as('alice').create(id, { name });
    await signs(shared, 4);
  });

  test.each([
    ['answers 502', (request: HTTPRequest) => request.respond({ status: 502, body: 'bad gateway' })],
    ['cannot be reached', (request: HTTPRequest) => request.abort()],
  ])('shows no contradiction when the service %s for its key', async (_, handle) => {
    const { page } = await auditPage(shared);
    await intercept(page, /^\/log-key/, handle);
    await openCheck(page, await get('/log-key'));
    await becomes(page, '#checkpoint .good', ['✓ The signature is valid.']);
    await becomes(page, '#key .unknown', [
      expect.stringMatching(/^\? This could not be asked\. The service/),
    ]);
    await becomes(page, '#key button', ['Try again']);
    await click(page, '.read');
    await becomes(page, '.verdict[data-state="good"] .outcome', [
      expect.stringMatching(/^✓ The log is what/),
    ]);
    expect(await texts(page, '.bad')).toEqual([]);
  });

  const PAGE = { contentType: 'text/html; charset=utf-8', body: '<title>Sign in</title>\n' };

  const FOREIGN = /^\? \/.* could not be asked: the answer is .*, so it is not the service's\. Try again\.$/;

  test.each([
    [/^\/log-key$/, '#key', PAGE, FOREIGN],
    [/^\/log-key$/, '#key', { contentType: 'text/plain', body: 'Back at noon\n' }, FOREIGN],
    [/^\/log-key$/, '#key', { ...PAGE, status: 404 }, /^\? The service answers 404\.$/],
    [/^\/checkpoint$/, '#checkpoint', PAGE, FOREIGN],
    [/^\/tile\//, '#whole', PAGE, FOREIGN],
    [/^\/events\?end=true$/, '#whole', PAGE, FOREIGN],
  ])(
    'shows no contradiction when the answer to %s is not the service’s',
    async (path, card, answer, shown) => {
      const { page } = await auditPage(shared);
      let isForeign = true;
      await intercept(page, path, (request) => (isForeign ? request.respond(answer) : request.continue()));
      await openCheck(page, await get('/log-key'));
      if (card === '#whole') await click(page, '.read');
      await page.waitForSelector(`${card} :is(.unknown, .bad)`);
      expect(await texts(page, '.bad')).toEqual([]);
      expect(await texts(page, `${card} .unknown`)).toEqual([expect.stringMatching(shown)]);
      isForeign = false;
      await submit(page, '#check', { key: await get('/log-key') });
      await becomes(page, '#key .good', ['✓ The service states the same key.']);
      await click(page, '.read');
      await page.waitForSelector('.verdict[data-state="good"]');
    },
  );

  test.each([
    [/^\/tile\//, 'application/octet-stream', /^✗ Tile\/0\/000\.p\/4 has 1 bytes, not 128\./],
    [/^\/events\?end=true$/, 'application/x-ndjson', /^✗ The event at index 0 is not the one in the tree\./],
  ])('shows a contradiction in a wrong answer to %s of the type %s', async (path, contentType, problem) => {
    const { page } = await auditPage(shared);
    await intercept(page, path, (request) => request.respond({ contentType, body: '\n' }));
    await openCheck(page, await get('/log-key'));
    await click(page, '.read');
    await becomes(page, '#whole .bad', [expect.stringMatching(problem)]);
  });

  test('shows no contradiction when the checkpoint cannot be asked, or the check is stopped', async () => {
    const { page } = await auditPage(shared);
    let held: HTTPRequest | undefined;
    let isDown = true;
    await intercept(page, /^\/(checkpoint$|tile)/, (request) => {
      if (request.url().includes('tile')) held = request;
      else if (isDown) void request.respond({ status: 503, body: '{}' });
      else void request.continue();
    });
    await openCheck(page, await get('/log-key'));
    await becomes(page, '.verdict[data-state="unknown"] .outcome', [
      expect.stringMatching(/^\? Not checked/),
    ]);
    isDown = false;
    await click(page, '.verdict button');
    await click(page, '.read');
    await becomes(page, '.pace', ['0 of 4 events']);
    await expect.poll(() => held).toBeDefined();
    await click(page, '.read');
    await becomes(page, '#whole .unknown', ['? Stopped: the log is not checked.']);
    expect(await texts(page, '.bad')).toEqual([]);
  });

  test('has no control until its script runs, and never puts the token into the URL', async () => {
    const { page } = await openPage('about:blank');
    let held: HTTPRequest | undefined;
    await intercept(page, /\.(js|ts)(\?|$)/, (request) => {
      held ??= request;
      if (held !== request) void request.continue();
    });
    const opened = page.goto(`${shared.url}/audit`);
    await page.waitForSelector('h2');
    await expect.poll(() => held).toBeDefined();
    const usable = await page.$$eval('form, input, button, select', (all) =>
      all
        .filter((one) => one.checkVisibility() && !one.matches(':disabled'))
        .map(({ outerHTML }) => outerHTML),
    );
    expect(usable).toEqual([]);
    await held?.continue();
    await opened;
    const token = await auditorToken(shared.dir);
    await page.locator('#token').fill(token);
    await page.keyboard.press('Enter');
    await becomes(page, NAMES, ['Moss', 'Ivy', 'Fern', 'Oak']);
    expect(page.url()).not.toContain(token);
  });

  test('says that days in the chart are days of UTC when other times are local', async () => {
    const day = 86_400_000;
    const times = Array.from({ length: 40 }, (_, i) => Date.UTC(2026, 2, 1, 22) + i * day);
    const { page } = await auditPage(await startService({ DATA_DIR: await logOf(times) }));
    await page.emulateTimezone('Asia/Colombo');
    await becomes(page, 'figcaption', ['Events per day: 2026-03-01 to 2026-04-09']);
    await page.select('#zone', 'local');
    await becomes(page, 'figcaption', ['Events per day of UTC: 2026-03-01 to 2026-04-09']);
    await page.$$eval('.bars > *', ([first]) => first?.click());
    await becomes(page, '.selected', [expect.stringMatching(/^1 event from 2026-03-02 03:30 to 05:29/)]);
  });

  test('says how many events have no time, and names an erasure in words with a link to each stub', async () => {
    const service = await startServiceWithTree();
    for (const id of [1, 2]) await service.as('alice').create(id, { name: 'Fern' });
    for (const id of [1, 2]) await service.as('bob').create(id, { name: 'Ivy' });
    await erase(service, 'alice');
    await signs(service, 5);
    const { page } = await auditPage(service);
    await becomes(page, '.without-time', [
      '2 events are in no bar, for lack of a time: erased events have none.',
    ]);
    await click(page, '.toggle');
    await becomes(page, '.words b', ['2 events']);
    await becomes(page, '.stubs a', ['0', '1']);
    await click(page, '.stubs a');
    await becomes(page, '.detail .words b', ['erased']);
    await becomes(page, '.event:has(+ .detail) .position', ['1']);
    await page.waitForSelector('.event:has(+ .detail) .toggle:focus'); // so it is in sight
    expect(await texts(page, '.without-time')).toEqual([]); // there are no bars
  });

  test('shows the count of a bar by keyboard and by touch', async () => {
    const times = Array.from({ length: 30 }, (_, i) => Date.UTC(2026, 2, 1, 0, i));
    const service = await startService({ DATA_DIR: await logOf([times[0] ?? 0, ...times]) });
    const { page } = await openPage(`${service.url}/audit`);
    await page.setViewport({ width: 390, height: 860, hasTouch: true });
    await submit(page, '#sign-in', { token: await auditorToken(service.dir) });
    await page.waitForSelector('.bars');
    await page.focus('.bars');
    await page.keyboard.press('Home');
    await becomes(page, '.selected', [expect.stringMatching(/^2 events from 2026-03-01 00:00/)]);
    await page.touchscreen.tap(...(await placeOf(page, '.bars > :nth-child(3)')));
    await becomes(page, '.selected', [expect.stringMatching(/^1 event from 2026-03-01 00:01/)]);
    expect(page.url()).not.toContain('since');
    await page.emulateTimezone('Asia/Colombo');
    await page.select('#zone', 'local');
    await becomes(page, 'figcaption', ['Events per 30 seconds: 2026-03-01 05:30 to 05:59 (Asia/Colombo)']);
  });

  test('is not live while another request shows that the service cannot be reached', async () => {
    const { page } = await auditPage(shared);
    await becomes(page, NAMES, ['Moss', 'Ivy', 'Fern', 'Oak']);
    await page.setOfflineMode(true);
    await click(page, '.download');
    await page.waitForSelector('.live[data-state="Reconnecting"]');
    await becomes(page, '.lost', [expect.stringContaining('The service cannot be reached.')]);
    await page.setOfflineMode(false);
    await page.waitForSelector('.live[data-state="Live"]');
    await becomes(page, '.lost', []);
  });

  test.each([{ user: 'nobody' }, { user: 'bob', until: '2020-01-01' }, { id: 'two' }])(
    'shows nothing of an earlier question when nothing is found for %j',
    async (fields) => {
      const { page } = await auditPage(shared);
      await becomes(page, NAMES, ['Moss', 'Ivy', 'Fern', 'Oak']);
      await submit(page, '#timeline', fields);
      await page.waitForSelector('.nothing');
      expect((await texts(page, '.problem, .nothing b')).filter(Boolean)).toHaveLength(1);
      expect(await texts(page, '#timeline :is(tbody tr, .chart)')).toEqual([]);
      await click(page, '.nothing .clear');
      await becomes(page, NAMES, ['Moss', 'Ivy', 'Fern', 'Oak']);
    },
  );

  test('stops once at the rows with the Tab key, and closes a row with Escape', async () => {
    const { page } = await auditPage(shared);
    await becomes(page, NAMES, ['Moss', 'Ivy', 'Fern', 'Oak']);
    const stops = await page.$$eval('tbody button', (all) => all.filter(({ tabIndex }) => tabIndex === 0));
    expect(stops).toHaveLength(1);
    await page.focus('tbody button');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.detail');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Escape');
    await becomes(page, '.detail', []);
    await page.waitForSelector('.toggle:focus');
  });

  test('shows the range that was asked on the axis, with all labels within the chart', async () => {
    const times = [0, 1, 2].map((hour) => Date.UTC(2026, 2, 3, hour));
    const { page } = await auditPage(await startService({ DATA_DIR: await logOf(times) }));
    await submit(page, '#timeline', { since: '2026-03-01', until: '2026-03-09' });
    await becomes(page, 'figcaption', ['Matching events per 6 hours: 2026-03-01 00:00 to 2026-03-09 23:59']);
    for (const width of [1440, 390]) {
      await page.setViewport({ width, height: 900 });
      const beyond = await page.$$eval('.axis > *', (labels) =>
        labels.filter((label) => {
          if (!label.checkVisibility()) return false;
          const chart = label.closest('.chart')?.getBoundingClientRect();
          const { left, right } = label.getBoundingClientRect();
          return (
            chart && (left < chart.left || right > chart.right || label.scrollWidth > label.clientWidth + 1)
          );
        }),
      );
      expect(beyond).toEqual([]);
    }
    await page.evaluate("location.hash = '#timeline?since=2026-03-01T06:00:00Z&until=2026-03-04T06:00:00Z'");
    const labels = (): Promise<string[]> =>
      page.$$eval('.axis > *', (all) =>
        all.filter((one) => one.checkVisibility()).map(({ textContent }) => textContent ?? ''),
      );
    await expect
      .poll(labels, { message: 'on a narrow screen, dates remain' })
      .toEqual(['2026-03-02', '2026-03-03']);
  });

  test('names numbers on a narrow screen, whose count is one line', async () => {
    const { page } = await auditPage(shared);
    await page.setViewport({ width: 390, height: 860 });
    await becomes(page, NAMES, ['Moss', 'Ivy', 'Fern', 'Oak']);
    const label = (selector: string): Promise<unknown> =>
      page.evaluate(`getComputedStyle(document.querySelector('${selector}'), '::before').content`);
    expect(await label('#timeline .position')).toBe('"position "');
    const lines = `(() => {
      const { height, lineHeight } = getComputedStyle(document.querySelector('.count'));
      return Math.round(parseFloat(height) / parseFloat(lineHeight));
    })()`;
    expect(await page.evaluate(lines)).toBe(1);
    await page.evaluate("location.hash = '#point-in-time?user=bob'");
    await becomes(page, '#point-in-time tbody .name', ['Oak']);
    expect(await label('#point-in-time td.id')).toBe('"ID "');
  });

  test('shows an altered event beside what a receipt says that it was', async () => {
    const { page } = await auditPage(shared);
    await intercept(page, /^\/events\?end=true$/, async (request) => {
      const body = (await get('/events?end=true')).replace('"name":"Fern"', '"name":"Elm"');
      await request.respond({ contentType: 'application/x-ndjson', body });
    });
    const file = join(tempDir(), 'fern.tlog-proof');
    writeFileSync(file, await get('/proofs/plants?id=0&user=alice'));
    await openCheck(page, await get('/log-key'));
    await click(page, '.read');
    await becomes(page, '.outcome', ['✗ The check failed: The event at index 1 is not the one in the tree.']);
    await choose(page, file);
    await becomes(page, '.side-by-side h4', ['Expected, by your receipt', 'Found']);
    const [expected = '', found = ''] = await texts(page, '.side-by-side pre');
    expect([JSON.parse(expected).data.name, JSON.parse(found).data.name]).toEqual(['Fern', 'Elm']);
    await click(page, '#whole [href^="#help"]');
    await page.waitForSelector('#help-tiles:focus');
    await becomes(page, '#help .back', [expect.stringContaining('The event at index 1')]);
    await click(page, '#help .back a');
    await becomes(page, '.outcome', [expect.stringContaining('The event at index 1')]);
  });

  test('prints no empty card, and the zone with its offset', async () => {
    const { page } = await auditPage(shared);
    await page.emulateTimezone('Asia/Colombo');
    await page.select('#zone', 'local');
    await openCheck(page, await get('/log-key'));
    await becomes(page, '#checkpoint .good', ['✓ The signature is valid.']);
    const look = (selector: string): Promise<unknown> =>
      page.evaluate(`getComputedStyle(document.querySelector('${selector}')).backgroundColor`);
    expect(await look('.choose'), 'a button that can be used looks so').toBe(await look('#key .primary'));
    await becomes(page, '.verdict dd:last-of-type', [
      expect.stringMatching(/ Asia\/Colombo \(UTC\+05:30\)$/),
    ]);
    await page.emulateMediaType('print');
    const cards = await page.$$eval('#check .card', (all) =>
      all.filter((card) => card.checkVisibility()).map(({ id }) => id),
    );
    expect(cards).toEqual(['checkpoint']);
    expect(await page.$eval('.printed', (one) => one.checkVisibility())).toBe(true);
    expect((await texts(page, '.printed'))[0]).toMatch(/ Asia\/Colombo \(UTC\+05:30\) from /);
  });

  test('shows the frame of the rows while they are loaded', async () => {
    const { page } = await openPage(`${shared.url}/audit`);
    let held: HTTPRequest | undefined;
    await intercept(page, /^\/events\?order=/, (request) => {
      held = request;
    });
    await submit(page, '#sign-in', { token: await auditorToken(shared.dir) });
    await expect.poll(() => held).toBeDefined();
    await expect.poll(async () => (await page.$$('#timeline .frame i')).length).toBeGreaterThan(5);
    await page.setViewport({ width: 390, height: 860 });
    const height = (): Promise<number> => page.$eval('header', ({ offsetHeight }) => offsetHeight);
    const loading = await height();
    await held?.continue();
    await becomes(page, NAMES, ['Moss', 'Ivy', 'Fern', 'Oak']);
    await becomes(page, '#timeline .frame', []);
    await page.waitForSelector(LIVE);
    expect(await height()).toBe(loading);
  });

  test('says in the place of the rows why they cannot be read, and tries again', async () => {
    const { page } = await openPage(`${shared.url}/audit`);
    let isDown = true;
    await intercept(page, /^\/events\?order=/, (request) =>
      isDown ? request.respond({ status: 503, body: '{}' }) : request.continue(),
    );
    await submit(page, '#sign-in', { token: await auditorToken(shared.dir) });
    await becomes(page, '.nothing .problem', [expect.stringMatching(/ Try again$/)]);
    isDown = false;
    await click(page, '.nothing button');
    await becomes(page, NAMES, ['Moss', 'Ivy', 'Fern', 'Oak']);
    await becomes(page, '.nothing', []);
  });

  test('can be read while it signs in', async () => {
    const { page } = await openPage(`${shared.url}/audit`);
    const held: HTTPRequest[] = [];
    await intercept(page, /^\/events/, (request) => held.push(request));
    const colour = (): Promise<unknown> =>
      page.evaluate(`getComputedStyle(document.querySelector('.primary')).color`);
    const before = await colour();
    await submit(page, '#sign-in', { token: await auditorToken(shared.dir) });
    await becomes(page, '.primary', ['Signing in…']);
    expect(await colour()).toBe(before);
  });

  test('prints rows of a table on paper of A4', async () => {
    const { page } = await auditPage(shared);
    await page.setViewport({ width: 717, height: 900 });
    await becomes(page, NAMES, ['Moss', 'Ivy', 'Fern', 'Oak']);
    await page.emulateMediaType('print');
    const display = await page.evaluate(`getComputedStyle(document.querySelector('tbody tr')).display`);
    expect(display).toBe('table-row');
  });
});

/** The middle of an element. */
async function placeOf(page: Page, selector: string): Promise<[number, number]> {
  const box = await page.$eval(selector, (one) => one.getBoundingClientRect().toJSON());
  return [box.x + box.width / 2, box.y + box.height - 4];
}
