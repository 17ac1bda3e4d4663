import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { appendMany, named, openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import type { Page } from 'puppeteer-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { NO_STREAM } from '../../packages/event-log/src/eventStore.ts';
import {
  formatVerifierKey,
  parseVerifierKey,
  verifierKey,
} from '../../packages/tlog/src/notes/signedNote.ts';
import { signCheckpoint } from '../../packages/tlog/src/sign/signCheckpoint.ts';
import { loadExistingLogKey } from '../../packages/transparency-log/src/signer/logKey.ts';
import { auditorToken } from '../support/eventStream.ts';
import { serviceOfFile, startService, startServiceWithTree } from '../support/service.ts';
import {
  auditPage,
  becomes,
  catchFiles,
  choose,
  click,
  erase,
  LIVE,
  NAMES,
  signs,
  submit,
  texts,
} from './auditPage.ts';
import { accessibilityProblems, WCAG_2_2_AA } from './axe.ts';
import { HAS_BROWSER, openPage } from './browser.ts';

/** The service of all tests that create no plants, with a plant of bob and then three of alice. */
const shared = await serviceOfFile({ MERKLE_TREE: 'on' });
const SHARED_NAMES = ['Moss', 'Ivy', 'Fern', 'Oak'];

const SCREENS = [
  { width: 400, height: 860, scheme: 'dark' },
  { width: 1600, height: 1000, scheme: 'light' },
];
/** Why the focus cannot be seen: nothing has it, it has no outline, or something covers it; empty if it can. */
const FOCUS_PROBLEM = `{
  const focused = document.activeElement;
  const { outlineStyle } = getComputedStyle(focused);
  const { left, top, width, height } = focused.getBoundingClientRect();
  const seen = [0.1, 0.9].map((part) => document.elementFromPoint(left + width / 2, top + height * part));
  focused === document.body || outlineStyle === 'none' || !seen.every((one) => focused.contains(one))
    ? focused.outerHTML.slice(0, 200)
    : '';
}`;

const allowClipboard = (page: Page, url: string): Promise<void> =>
  page.browserContext().overridePermissions(url, ['clipboard-read', 'clipboard-sanitized-write']);

describe.skipIf(!HAS_BROWSER)('the audit page', () => {
  beforeAll(async () => {
    await shared.as('bob').create(1, { name: 'Oak' });
    for (const [id, name] of ['Fern', 'Ivy', 'Moss'].entries())
      await shared.as('alice').create(id, { name, ...(id === 0 && { tag: 'W'.repeat(200) }) });
  });

  test('shows why a token is refused, and keeps tokens only in memory', async () => {
    const { url, dir } = shared;
    const { page, requests } = await openPage(`${url}/audit`);
    await submit(page, '#sign-in', { token: 'nonsense' });
    await becomes(page, '#sign-in .problem', ['The token is not valid.']);
    await page.waitForSelector('#sign-in details[open]');
    await page.waitForSelector('#token[aria-invalid="true"]');
    const field = await page.evaluate(
      `[token.value, getComputedStyle(token).getPropertyValue('-webkit-text-security')]`,
    );
    expect(field).toEqual(['nonsense', 'disc']);
    const token = await auditorToken(dir);
    await submit(page, '#sign-in', { token });
    await becomes(page, NAMES, SHARED_NAMES);
    expect(requests.filter((url) => url.includes(token))).toEqual([]);
    const kept = await page.evaluate(
      '[document.cookie, localStorage.length, sessionStorage.length, document.documentElement.outerHTML]',
    );
    expect(kept).toEqual(['', 0, 0, expect.not.stringContaining(token)]);

    await click(page, '#sign-out');
    await page.waitForSelector('#sign-in');
    expect(await texts(page, 'tbody tr')).toEqual([]);

    await page.evaluateOnNewDocument('delete JSON.rawJSON');
    await page.reload();
    await becomes(page, '.too-old', [expect.stringContaining('This browser is too old')]);
    expect(await page.$('main')).toBe(null);
  });

  test('shows, filters and saves the newest events first, and live events', async () => {
    const { url, dir, as } = await startServiceWithTree();
    const [alice, bob] = [as('alice'), as('bob')];
    await alice.create(1, { name: 'Fern', tag: 'indoor' });
    await bob.create(1, { name: 'Oak' });
    const { page, problems, requests } = await auditPage({ url, dir });
    const filter = (fields: Record<string, string>) => submit(page, '#timeline', fields);
    await becomes(page, NAMES, ['Oak', 'Fern']);
    await alice.create(2, { name: 'Ivy' });
    await becomes(page, NAMES, ['Ivy', 'Oak', 'Fern']);

    await filter({ user: 'alice' });
    await becomes(page, NAMES, ['Ivy', 'Fern']);
    await page.waitForSelector(LIVE);
    await bob.create(2, { name: 'Elm' });
    await alice.create(3, { name: 'Moss' });
    await becomes(page, NAMES, ['Moss', 'Ivy', 'Fern']);
    await filter({ id: '2' });
    await becomes(page, NAMES, ['Ivy']);
    await filter({ id: 'two' });
    await becomes(page, '#timeline .problem', ['Id must be a 64-bit integer in decimal digits.']);
    await filter({ user: '', id: '', until: '2020-01-01' });
    await becomes(page, '#timeline .nothing', ['No event matches.Clear the filters']);
    await becomes(page, '.chip', ['Until 2020-01-01 (UTC)✕']);
    await click(page, '#timeline .clear');
    await becomes(page, NAMES, ['Moss', 'Elm', 'Ivy', 'Oak', 'Fern']);
    await filter({ until: 'yesterday' });
    await becomes(page, '#timeline .problem', ['Until must be a time such as 2026-03-01 12:00.']);
    await click(page, '#timeline .clear');
    await becomes(page, NAMES, ['Moss', 'Elm', 'Ivy', 'Oak', 'Fern']);

    const nextFile = await catchFiles(page);
    await filter({ user: 'bob', id: '1' });
    await becomes(page, NAMES, ['Oak']);
    await click(page, '.download');
    const response = await as('carol', 'audit').request('/events?user=bob&id=1&end=true');
    expect(await nextFile()).toEqual(['events.ndjson', await response.text()]);
    await filter({ user: '', id: '' });
    await becomes(page, NAMES, ['Moss', 'Elm', 'Ivy', 'Oak', 'Fern']);
    await page.waitForSelector('.bars');
    await page.$$eval('.bars > *', ([first]) => first?.click());
    await becomes(page, '.selected', [expect.stringMatching(/^\d event.* from .* to .*Show only these$/)]);
    await click(page, '.only');
    await page.waitForFunction(`document.querySelector('[name="until"]').value !== ''`);
    await expect.poll(async () => (await texts(page, NAMES)).at(-1)).toBe('Fern');

    expect(requests.filter((one) => !one.startsWith(url))).toEqual([]);
    const badRequest = expect.stringContaining('400 (Bad Request)');
    expect(problems).toEqual([badRequest]);
  });

  test('resumes without a gap or a duplicate after the server restarts, and signs out with another key', async () => {
    const first = await startService();
    await first.as('alice').create(1, { name: 'Fern' });
    const { page } = await auditPage(first);
    await becomes(page, NAMES, ['Fern']);
    await first.close();
    await page.waitForSelector('.live[data-state="Reconnecting"]');

    const env = { DATA_DIR: first.dir, PORT: new URL(first.url).port };
    const second = await startService(env);
    await second.as('alice').create(2, { name: 'Ivy' });
    await becomes(page, NAMES, ['Ivy', 'Fern']);
    await page.waitForSelector(LIVE);

    await second.close();
    await startService({ ...env, KEY_FILE: join(tempDir(), 'key.json') });
    await page.waitForSelector('#sign-in');
    await becomes(page, '#sign-in .problem', ['The token is not valid.']);
  });

  test('pages through more events than it holds', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    await appendMany(log, 450);
    await log.close();
    const service = await startService({ DATA_DIR: dir });
    const { page } = await auditPage(service);
    const showsEvents = (from: number, to: number): Promise<void> => {
      const positions = Array.from({ length: from - to + 1 }, (_, i) => String(from - i));
      return becomes(page, '#timeline tbody .position', positions);
    };
    await showsEvents(450, 251);
    await click(page, '.older');
    await showsEvents(250, 51);
    await service.as('alice').create(1, { name: 'Fern' });
    await becomes(page, '.newest', ['Newest (1 new)']);
    await click(page, '.older');
    await showsEvents(50, 1);
    await click(page, '.newer');
    await showsEvents(250, 51);
    await click(page, '.older');
    await showsEvents(50, 1);
    await becomes(page, '.count', ['451 events, page 3']);
    await click(page, '.newest');
    await showsEvents(451, 252);

    await page.setOfflineMode(true);
    await click(page, '.older');
    await becomes(page, '#timeline .problem', ['The service cannot be reached. Try again']);
    await showsEvents(451, 252);
    await page.setOfflineMode(false);
    await click(page, '#timeline .problem button');
    await becomes(page, '#timeline .problem', ['']);
  });

  test('shows all events over time, and how many match, of how many that the log has', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    for (let i = 0; i < 250; i++) {
      const metadata = { occurredAt: new Date(Date.UTC(2026, 2, 1, 0, i)).toISOString() };
      await log.append(`plant-bob/${i}`, { ...named('Oak'), metadata }, NO_STREAM);
    }
    await log.close();
    const service = await startServiceWithTree({ DATA_DIR: dir });
    const { page } = await auditPage(service);
    const count = (text: string) => becomes(page, '.count', [text]);
    await count('250 events, newest first');
    await becomes(page, 'figcaption', ['Events per 5 minutes: 2026-03-01 00:00 to 04:09']);
    await becomes(page, '.scale span', ['6', '3', '0']);
    await becomes(page, '.axis span', ['2026-03-01', '01:00', '02:00', '03:00', '04:00']);
    expect(await texts(page, '.bars > *')).toHaveLength(50);
    await service.as('alice').create(1, { name: 'Fern' });
    await count('251 events, newest first');
    await click(page, '.older');
    await count('251 events, page 2');
    await signs(service, 251);
    await submit(page, '#timeline', { user: 'bob' });
    await count('250 of 251 events match, newest first');
    // The newest checkpoint is unavailable, but not the one of the witnesses.
    await page.setRequestInterception(true);
    page.on('request', (request) => {
      if (request.url().endsWith('/checkpoint?latest')) void request.respond({ status: 503, body: '{}' });
      else if (request.url().endsWith('/checkpoint'))
        void request.respond({
          contentType: 'text/plain',
          body: `log\n240\n${'A'.repeat(43)}=\n\n— log AAAAAAA=\n`,
        });
      else void request.continue();
    });
    await submit(page, '#timeline', { user: 'alice' });
    await count('1 of 240 events match, newest first');
  });

  test('keeps its filters in the URL, so that Back works and a screen can be shared, but never the token', async () => {
    const ofAlice = ['Moss', 'Ivy', 'Fern'];
    const { page } = await auditPage(shared);
    await becomes(page, NAMES, SHARED_NAMES);
    await submit(page, '#timeline', { user: 'bob' });
    await becomes(page, NAMES, ['Oak']);
    await page.goBack();
    await becomes(page, NAMES, SHARED_NAMES);
    await submit(page, '#timeline', { user: 'alice', since: '2020-02-29' });
    await becomes(page, NAMES, ofAlice);
    const { hash } = new URL(page.url());
    expect(hash).toBe('#timeline?user=alice&since=2020-02-29T00%3A00%3A00.000Z');
    await click(page, 'nav [href="#check"]');
    await click(page, 'nav [href^="#timeline"]');
    await becomes(page, NAMES, ofAlice);
    expect(new URL(page.url()).hash).toBe(hash);

    const { page: other, problems, requests } = await openPage(`${shared.url}/audit${hash}`);
    const token = await auditorToken(shared.dir);
    await submit(other, '#sign-in', { token });
    await becomes(other, NAMES, ofAlice);
    expect(await other.evaluate('document.querySelector("[name=since]").value')).toBe('2020-02-29');
    const open = (fragment: string) => other.evaluate(`location.hash = ${JSON.stringify(fragment)}`);
    for (const [fragment, problem] of [
      ['#timeline?since=2020-02-30', 'Since must be a time such as 2026-03-01 12:00.'],
      ['#timeline?until=%3Cimg%20src=x%3E', 'Until must be a time such as 2026-03-01 12:00.'],
      ['#timeline?id=1%26user=bob', 'Id must be a 64-bit integer in decimal digits.'],
      ['#timeline?user=%00%ff%3Cb%3E', expect.stringMatching(/^(User|The log has no event of the user)/)],
      ['#point-in-time?user=alice&at=now', 'At must be a time such as 2026-03-01 12:00.'],
    ] as const) {
      await open(fragment);
      await becomes(other, 'main .problem', [problem]);
    }
    await open('#timeline?%&user=alice&user=bob&limit=0&order=ascending&token=x');
    await becomes(other, NAMES, ['Oak']); // the last value counts
    const since = 'since=2020-02-29T12%3A00%3A00%2B05%3A30';
    await open(`#timeline?${since}`);
    await becomes(other, NAMES, SHARED_NAMES);
    await submit(other, '#timeline', { user: 'bob' });
    await becomes(other, NAMES, ['Oak']);
    expect(new URL(other.url()).hash).toBe(`#timeline?user=bob&${since}`);
    expect(problems.filter((problem) => !problem.includes('400 (Bad Request)'))).toEqual([]);
    expect([...requests, other.url()].filter((url) => url.includes(token))).toEqual([]);
  });

  test('shows and takes times in UTC or local time, typed or chosen', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    const occurredAt = '2026-03-01T12:00:00.000Z';
    const metadata = { $correlationId: 'r', schemaVersion: 1, occurredAt };
    const data = { id: '1', user: 'alice', name: 'Fern' };
    const id = '00000000-0000-7000-8000-000000000001';
    await log.append('plant-alice/1', { id, type: 'PlantCreated', data, metadata }, NO_STREAM);
    await log.close();
    const { page } = await auditPage(await startService({ DATA_DIR: dir }));
    await page.emulateTimezone('Asia/Colombo');
    await becomes(page, '.toggle', ['2026-03-01 12:00:00.000']);
    await page.select('#zone', 'local');
    await becomes(page, '.toggle', ['2026-03-01 17:30:00.000']);
    await becomes(page, '#timeline th:first-child', ['Time (Asia/Colombo)']);
    // The calendar is the browser's; while it is open, it takes clicks.
    await page.evaluate(`HTMLInputElement.prototype.showPicker = function () {
      this.value = '2026-03-01T17:30';
      this.dispatchEvent(new Event('change'));
    }`);
    await click(page, '[name="since"] ~ .pick');
    await submit(page, '#timeline', { until: '2026-03-01 17:30' });
    await page.waitForFunction('location.hash.includes("until")');
    const since = encodeURIComponent(occurredAt);
    expect(new URL(page.url()).hash).toBe(`#timeline?since=${since}&until=${since}`);
    await becomes(page, NAMES, ['Fern']);
    await submit(page, '#timeline', { until: '2026-03-01 12:00' });
    await becomes(page, '#timeline .problem', ['Since must not be later than until.']);
    await page.select('#zone', 'utc');
    await submit(page, '#timeline', { until: '2026-03-01 12:00' });
    await becomes(page, '.toggle', ['2026-03-01 12:00:00.000']);
  });

  test('an empty log says so, with the request that creates the first plant', async () => {
    const service = await startServiceWithTree();
    const { page } = await auditPage(service);
    const notice = '#timeline .empty-log';
    await becomes(page, `${notice} b`, [expect.stringMatching(/^The log is empty/)]);
    expect(await page.$('#timeline :is(form, .toolbar, table, .chart)')).toBe(null);
    const [commands = ''] = await texts(page, `${notice} pre`);
    const [, url = '', body = ''] =
      /\ncurl -s (\S+) -H "Authorization: Bearer \$TOKEN" .* -d '(.*)'$/.exec(commands) ?? [];
    expect(url).toBe(`${service.url}/plants`);
    await allowClipboard(page, service.url);
    await click(page, `${notice} .copy`);
    await becomes(page, `${notice} .status`, ['Copied.']);
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(commands);
    await click(page, 'nav [href="#point-in-time"]');
    await becomes(page, '#point-in-time .nothing', ['The log is empty.Create the first plant']);
    expect(await page.$('#point-in-time form')).toBe(null);
    await click(page, '.nothing a');
    expect((await service.as('alice').post(body)).status).toBe(200);
    await becomes(page, NAMES, ['Fern']);
    await becomes(page, notice, []);
    await click(page, 'nav [href="#point-in-time"]');
    await becomes(page, '.users li', ['alice1 event']);
    expect(await page.$('#point-in-time form')).not.toBe(null);
  });

  test('shows the plants of a user at a point in time', async () => {
    const { page, problems } = await auditPage(shared);
    const plants = '#point-in-time tbody .name';
    await click(page, 'nav [href="#point-in-time"]');
    await becomes(page, '.users li', ['alice3 events', 'bob1 event']);
    await click(page, '.users a');
    await becomes(page, plants, ['Fern', 'Ivy', 'Moss']);
    await becomes(page, '#point-in-time .question', ['Plants of alice']);
    await click(page, '#point-in-time [aria-label="Previous event"]');
    await becomes(page, plants, ['Fern', 'Ivy']);
    const [when = ''] = await texts(page, '.when');
    const at = `${when.slice(0, 23).replace(' ', 'T')}Z`;
    await click(page, '#point-in-time [aria-label="First event"]');
    await becomes(page, plants, ['Fern']);
    await click(page, '#point-in-time [aria-label="Previous event"]');
    await becomes(page, '.when', ['Before the first plant: 0 plants']);
    await submit(page, '#point-in-time', { at: at.replace('T', ' ') });
    await becomes(page, '.when', [when]);
    await submit(page, '#point-in-time', { at: '2020-01-01' });
    await becomes(page, '.when', ['Before the first plant: 0 plants']);
    await page.goBack();
    await becomes(page, '.when', [when]);

    await click(page, 'nav [href="#timeline"]');
    await click(page, '#timeline tbody tr:nth-child(2) .toggle');
    await click(page, '.detail ::-p-text(This user’s plants then)');
    await becomes(page, plants, ['Fern', 'Ivy']);
    expect(problems).toEqual([]);
    await submit(page, '#point-in-time', { user: 'nobody' });
    await becomes(page, '#point-in-time .problem', ['The log has no event of the user "nobody".']);
    await submit(page, '#point-in-time', { user: 'alice ' });
    await becomes(page, '#point-in-time .problem', ['The log has no event of the user "alice ".']);
    await becomes(page, '#point-in-time :is(.state, tbody tr)', []);
  });

  test('copies an event, and says so when the service has no Merkle tree', async () => {
    const service = await startService({ MERKLE_TREE: 'off' });
    await service.as('alice').create(1, { name: 'Fern' });
    const { page } = await auditPage(service);
    await click(page, '.toggle');
    await page.evaluate('navigator.clipboard.writeText = async () => { throw new Error() }');
    await click(page, '.detail ::-p-text(Copy JSON)');
    await becomes(page, '.copy + .status', ['The browser does not allow it; select the text.']);
    await page.evaluate('delete navigator.clipboard.writeText');
    await allowClipboard(page, service.url);
    await click(page, '.detail ::-p-text(Copy JSON)');
    await becomes(page, '.copy + .status', ['Copied.']);
    expect([await page.evaluate('navigator.clipboard.readText()')]).toEqual(await texts(page, '.detail pre'));

    await click(page, '.detail ::-p-text(Receipt)');
    await becomes(page, '.receipt + .status', ['The service has no Merkle tree, so it gives no receipts.']);
    await click(page, 'nav [href="#check"]');
    await becomes(page, '#check .nothing', [expect.stringContaining('MERKLE_TREE=off')]);
    expect(await page.$('#check .lead')).toBe(null);
    expect(await page.$('.steps')).toBe(null);
  });

  test('shows texts of events as text, never as markup', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    const hostile = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
    const metadata = { $correlationId: 'r', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00.000Z' };
    const written = [
      { user: hostile, name: hostile, tag: `</td>${hostile}` },
      { user: 'bob', name: '\u202Egnp.nref\u2066\0\x1b[31m', tag: '\u200B' },
      { user: 'carol', name: 'm'.repeat(2 ** 20), tag: '' },
      { user: 'dora', name: { toString: 1 }, tag: ['x'] },
    ];
    for (const [i, { user, ...plant }] of written.entries()) {
      const data = { id: String(i), user, ...plant } as never;
      const id = `00000000-0000-7000-8000-00000000000${i}`;
      await log.append(`plant-${user}/${i}`, { id, type: `Type${hostile}`, data, metadata }, NO_STREAM);
    }
    await log.close();
    const { page, problems } = await auditPage(await startServiceWithTree({ DATA_DIR: dir }));
    const longName = `${'m'.repeat(120)}…`;
    await becomes(page, NAMES, ['', longName, '[U+202E]gnp.nref[U+2066][U+0000][U+001B][31m', hostile]);
    const tags = await texts(page, '#timeline tbody .tag');
    expect(tags.slice(2)).toEqual(['[U+200B]', `</td>${hostile}`.slice(0, 120)]);
    for (const toggle of await page.$$('.toggle')) await toggle.click();
    await page.waitForFunction(`document.querySelectorAll('.detail').length === 4`);
    const shown = await texts(page, '.detail pre > span');
    expect(shown[1]?.length).toBe(4_000);
    expect(shown[2]).toContain('"name": "\\u202egnp.nref\\u2066\\u0000\\u001b[31m"');
    expect(JSON.parse(shown[3] ?? '').data).toEqual({ id: '0', ...written[0] });
    for (const summary of await page.$$('.detail summary')) await summary.click();
    await click(page, '.detail ::-p-text(Show all)');
    expect((await texts(page, '.detail pre > span'))[1]?.length).toBeGreaterThan(2 ** 20);
    expect(await page.title()).toBe('Audit – Plant store');
    expect(await page.$$('tbody img, tbody script')).toEqual([]);
    expect(problems).toEqual([]);
  });

  test('checks what the log signs, all of its events, and evidence', async () => {
    const service = await startServiceWithTree({ LOG_ORIGIN: 'plants.example/log' });
    const alice = service.as('alice');
    await Promise.all(Array.from({ length: 300 }, (_, i) => alice.create(i, { name: `Fern ${i}` })));
    const carol = service.as('carol', 'audit');
    const get = async (path: string): Promise<string> => (await carol.request(path)).text();
    await signs(service, 300);
    const own = (await get('/log-key')).trim();
    const { page, problems } = await auditPage(service);
    const nextFile = await catchFiles(page);
    await submit(page, '#timeline', { id: '7' });
    await becomes(page, NAMES, ['Fern 7']);
    await click(page, '.toggle');
    await click(page, '.detail ::-p-text(Receipt)');
    await becomes(page, '.receipt + .status', ['Saved. Check it']);
    const [receiptFile, receipt] = await nextFile();
    expect(receiptFile).toBe('plant-7.tlog-proof');
    await click(page, 'nav [href="#check"]');
    const factsOf = async (card: string): Promise<Record<string, string>> => {
      const [names, values] = [await texts(page, `${card} dt`), await texts(page, `${card} dd`)];
      return Object.fromEntries(names.map((name, i) => [name, values[i] ?? '']));
    };
    const result = (card: string, text: unknown): Promise<void> =>
      becomes(page, `#${card} .result > p:first-child`, [text]);

    await submit(page, '#check', { key: 'nonsense' });
    await result('key', '? The key must be a verifier key: NAME+ID+KEY.');
    const { name } = parseVerifierKey(own);
    const other = verifierKey(name, Buffer.alloc(32, 7));
    await submit(page, '#check', { key: formatVerifierKey(other) });
    await result('key', '✗ The service states a different key. One of them is not the key of this log.');
    await result('checkpoint', `✗ There is no signature of ${name}+${other.id}.`);
    expect(await page.$('.read')).toBe(null);
    await submit(page, '#check', { key: own });
    await result('key', '✓ The service states the same key.');
    await result('checkpoint', '✓ The signature is valid.');
    expect(await texts(page, '#checkpoint dd')).toEqual([
      name,
      '300',
      expect.stringMatching(/^[\da-f]{64}$/),
    ]);
    await click(page, '.read');
    await result('whole', '✓ The 300 events of the log have the root that it signs.');
    await becomes(page, '.outcome', ['✓ The log is what it signs: all 300 events have the signed root.']);
    await becomes(page, '.verdict dd', [
      own,
      expect.stringMatching(/^[\da-f]{64}$/),
      expect.stringMatching(/ UTC$/),
    ]);

    const earlier = await get('/checkpoint');
    await allowClipboard(page, service.url);
    for (const [button, text] of [
      ['Copy root', (await texts(page, '#checkpoint dd'))[2]],
      ['Copy checkpoint', earlier],
    ]) {
      await click(page, `#checkpoint ::-p-text(${button})`);
      await expect.poll(() => page.evaluate('navigator.clipboard.readText()')).toBe(text);
    }
    await becomes(page, '#checkpoint .status', ['Copied.', 'Copied.']);
    await click(page, '#checkpoint ::-p-text(Save checkpoint)');
    expect(await nextFile()).toEqual(['checkpoint-300', earlier]);
    await alice.create(300, { name: 'Ivy' });
    await signs(service, 301);
    const { key } = loadExistingLogKey({
      logKeyFile: join(service.dir, 'log-key.json'),
      logOrigin: name,
      keyFile: join(service.dir, 'key.json'),
    });
    const signed = (size: number): string =>
      signCheckpoint({ size, root: '7'.repeat(64) }, { origin: name, key });
    const dir = tempDir();
    const topics: Record<string, string> = { forked: 'evidence', longer: 'lost' };
    for (const [file, text, shown] of [
      [
        'earlier',
        earlier,
        /^✓ The checkpoint of 300 events holds: .* the log of 301 events still begins with it/,
      ],
      ['receipt', receipt, /^✓ The receipt of the event at index \d+ holds: it is signed/],
      ['invalid', receipt.replace(/^index .*$/m, 'index 3000'), /^\? File invalid: The proof is invalid/],
      ['forked', signed(200), /^✗ .* but the log no longer begins with it/],
      ['longer', signed(302), /^✗ .* it has signed 302 events, and now signs 301/],
      ['forged', signed(200).replace('\n200\n', '\n201\n'), /^✗ File forged: The signature of .* is invalid/],
      ['other', '\xff', /^\? File other: The text is not a signed note/],
      ['binary', Buffer.of(0xff), /^\? File binary: The text is not UTF-8/],
    ] as const) {
      writeFileSync(join(dir, file), text);
      await choose(page, join(dir, file));
      await result('evidence', expect.stringMatching(shown));
      if (file === 'earlier')
        // 301 events are signed now, and 300 were compared
        await becomes(page, '.outcome', ['✓ The log is what it signs: all 300 events have the signed root.']);
      if (file === 'receipt')
        expect(await factsOf('#evidence')).toMatchObject({
          stream: 'plant-alice/7',
          user: 'alice',
          'plant ID': '7',
          time: expect.stringMatching(/ UTC$/),
          type: 'PlantCreated',
          name: 'Fern 7',
        });
      if (file === 'forked')
        expect(await factsOf('#evidence')).toEqual({
          'Size and root in the file': `200:${'7'.repeat(64)}`,
          'Size and root of the log': expect.stringMatching(/^301:/),
        });
      const about = shown.source.startsWith('^✓') ? [] : [topics[file] ?? 'file'];
      const links = await page.$$eval('#evidence .result a', (all) =>
        all.map((link) => link.getAttribute('href')),
      );
      expect(links).toEqual(about.map((topic) => `#help?about=${topic}`));
    }
    await page.evaluate(`{
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['dropped'], 'dropped'));
      document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer, cancelable: true }));
    }`);
    await result('evidence', '? File dropped: The text is not a signed note.');
    await submit(page, '#check', { key: formatVerifierKey(other) });
    await becomes(page, '#key dd', [own]);
    await becomes(page, '.outcome', [
      expect.stringMatching(/^✗ The check failed: The service states a different key/),
    ]);
    await click(page, '#checkpoint [href="#help?about=key"]');
    await page.waitForSelector('#help-key:focus');
    expect(problems).toEqual([]);
  });

  test('shows erased events and the records of erasures as what they are', async () => {
    const service = await startServiceWithTree();
    for (const id of [1, 2]) await service.as('alice').create(id, { name: 'Fern' });
    await service.as('bob').create(1, { name: 'Ivy' });
    const carol = service.as('carol', 'audit');
    const save = async (path: string): Promise<string> => {
      const file = join(tempDir(), 'receipt');
      writeFileSync(file, await (await carol.request(path)).text());
      return file;
    };
    const receipt = await save('/proofs/plants?id=2&user=alice');
    expect(await erase(service, 'alice')).toEqual([3]);
    const record = await save('/proofs/erasures?index=3');
    const { page, problems } = await auditPage(service);
    const erased = 'erased; only its digest remains';
    await becomes(page, NAMES, ['2 events erased', 'Ivy', erased, erased]);
    await becomes(page, '#timeline tbody .type', [
      'EventsErased',
      'PlantCreated',
      'EventErased',
      'EventErased',
    ]);

    await click(page, 'nav [href="#point-in-time"]');
    await becomes(page, '#point-in-time .erased', [
      '2 events are erased in this log; their plants are not shown. The records',
    ]);
    await submit(page, '#point-in-time', { user: 'bob' });
    await becomes(page, '#point-in-time tbody .name', ['Ivy']);
    await page.waitForSelector('#point-in-time .erased');
    await click(page, '#point-in-time .erased a');
    await becomes(page, NAMES, ['2 events erased']);

    await click(page, 'nav [href="#check"]');
    const key = await (await carol.request('/log-key')).text();
    await submit(page, '#check', { key });
    await click(page, '.read');
    await becomes(page, '.outcome', [
      '✓ The log is what it signs: all 4 events have the signed root. Of these, 2 events are erased, on record (1 record).',
    ]);

    const receiptHolds =
      '✓ The receipt of the event at index 1 holds: it is signed, and the log of 4 events still begins with it.';
    const recordHolds =
      '✓ The receipt of record 3 holds: it is signed, and the log of 4 events still begins with it.';
    const names = 'Record 3 names 2 events as erased: 0, 1.';
    const isNamed = 'The event at index 1 is named as erased by record 3.';
    const shows = (...lines: string[]): Promise<void> => becomes(page, '#evidence .result > p', lines);
    await choose(page, receipt);
    await shows(receiptHolds);
    await choose(page, record);
    await shows(recordHolds, names, isNamed);
    await choose(page, receipt);
    await shows(receiptHolds, isNamed);
    await submit(page, '#check', { key });
    await page.waitForSelector('.choose');
    await choose(page, record);
    await shows(recordHolds, names);
    expect(problems).toEqual([]);
  });

  test('is used by keyboard alone, with visible focus, from the sign-in to a receipt that holds', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    for (let i = 0; i < 401; i++) {
      const metadata = { occurredAt: new Date(Date.UTC(2026, 2, 1, 0, i)).toISOString() };
      await log.append(`plant-alice/${i}`, { ...named('Oak'), metadata }, NO_STREAM);
    }
    await log.close();
    const { url, as } = await startServiceWithTree({ DATA_DIR: dir });
    await as('bob').create(1, { name: 'Fern' });
    const key = await (await as('carol', 'audit').request('/log-key')).text();
    const { page, problems } = await openPage(`${url}/audit`);
    const nextFile = await catchFiles(page);
    const focused = async (selector: string): Promise<void> => {
      await page.waitForSelector(`${selector}:focus`);
      expect(await page.evaluate(FOCUS_PROBLEM)).toBe('');
    };
    /** Presses Tab until this element has the focus, which is visible at each stop. */
    const tabTo = async (selector: string, back = false): Promise<void> => {
      for (let stops = 0; !(await page.$(`${selector}:focus`)); stops++) {
        expect(stops, `stops before ${selector}`).toBeLessThan(30);
        if (back) await page.keyboard.down('Shift');
        await page.keyboard.press('Tab');
        if (back) await page.keyboard.up('Shift');
        expect(await page.evaluate(FOCUS_PROBLEM)).toBe('');
      }
    };
    const press = async (...keys: Parameters<typeof page.keyboard.press>[0][]): Promise<void> => {
      for (const key of keys) await page.keyboard.press(key);
    };
    const type = async (field: string, text: string): Promise<void> => {
      await tabTo(field);
      await page.keyboard.sendCharacter(text);
      await press('Enter');
    };

    await type('#token', await auditorToken(dir));
    await focused('#timeline h2');
    await page.waitForSelector('#timeline .older:enabled');
    await tabTo('#timeline .older');
    await press('Enter');
    await becomes(page, '.count', ['402 events, page 2']);
    await focused('.toolbar.above .older');
    await press('Enter');
    await becomes(page, '.count', ['402 events, page 3']);
    await focused('#timeline h2'); // it is the last page
    await tabTo('#timeline .newest');
    await press('Enter');
    await becomes(page, '.count', ['402 events, newest first']);
    await focused('#timeline h2');

    await tabTo('#timeline .bars');
    await press('Home', 'Enter');
    await becomes(page, '.count', ['401 of 402 events match, newest first']);
    await focused('#timeline .bars');
    await tabTo('#timeline .clear-all', true);
    await press('Enter');
    await becomes(page, '.count', ['402 events, newest first']);

    await tabTo('#timeline .toggle');
    await press(...Array(60).fill('ArrowDown'));
    for (let i = 0; i < 60; i++) {
      await press('ArrowUp');
      expect(await page.evaluate(FOCUS_PROBLEM)).toBe(''); // the header row covers no row
    }
    await press('Enter');
    await tabTo('.detail summary');
    await press('Enter');
    await tabTo('.detail pre');
    await tabTo('.detail [href="#timeline?user=bob"]', true);
    await press('Enter');
    await becomes(page, NAMES, ['Fern']);
    await focused('#timeline h2');
    await tabTo('#timeline .toggle');
    await press('Enter');
    await tabTo('.detail .receipt');
    await press('Enter');
    const receipt = await nextFile();
    await tabTo('.receipt + output a');
    await press('Enter');
    await focused('#check h2');
    await type('#check .key-field', key);
    await page.waitForSelector('.read');
    await tabTo('.read');
    await press('Enter');
    await page.waitForSelector('#whole .good');
    await focused('.read');
    const file = join(tempDir(), receipt[0]);
    writeFileSync(file, receipt[1]);
    const opened = page.waitForFileChooser(); // it takes a moment until it intercepts the dialog
    await tabTo('.choose');
    await press('Enter');
    await (await opened).accept([file]);
    await becomes(page, '#evidence .good', [
      '✓ The receipt of the event at index 401 holds: it is signed, and the log of 402 events still begins with it.',
    ]);
    await focused('.choose');

    await tabTo('nav [href="#point-in-time"]', true);
    await press('Enter');
    await page.waitForSelector('.users a');
    await tabTo('.users a');
    await press('Enter');
    await focused('#point-in-time h2');
    expect(problems).toEqual([]);
  });

  test('is accessible on a dark phone and on a light wide screen, and nothing is beyond its width', async () => {
    const { url, dir, as } = shared;
    const { page } = await openPage(`${url}/audit`);
    const expectAccessible = async (): Promise<void> => {
      for (const { scheme, ...size } of SCREENS) {
        await page.setViewport(size);
        await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
        await page.waitForFunction('document.getAnimations().length === 0');
        expect(await accessibilityProblems(page, WCAG_2_2_AA), scheme).toEqual({});
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(size.width);
      }
    };
    await expectAccessible();
    await submit(page, '#sign-in', { token: await auditorToken(dir) });
    await page.waitForSelector(LIVE);
    await click(page, '#timeline tbody tr:nth-child(3) .toggle');
    await page.waitForSelector('.detail');
    await expectAccessible();
    await click(page, '.detail ::-p-text(This user’s plants then)');
    await page.waitForSelector('.entities .name');
    await expectAccessible();
    await click(page, 'nav [href="#check"]');
    await submit(page, '#check', { key: await (await as('carol').request('/log-key')).text() });
    await page.waitForSelector('.read');
    await expectAccessible();
    await click(page, 'nav [href^="#help"]');
    await expectAccessible();
    await click(page, 'nav [href^="#timeline"]');
    await submit(page, '#timeline', { id: 'two' });
    await page.waitForSelector('#timeline .nothing');
    await expectAccessible();
    await page.setViewport({ width: 400, height: 860 });
    await page.waitForSelector('#timeline .problem', { visible: true }); // although filters are closed
  });
});
