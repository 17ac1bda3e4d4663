import { expect, onTestFinished, test } from 'vitest';
import { Metrics, serveMetrics } from '../../src/monitor/metrics.ts';

test('metrics are served as text, and a value that is not known is absent', async () => {
  const metrics = new Metrics();
  const { url, close } = await serveMetrics(metrics, { port: 0, host: '127.0.0.1' });
  onTestFinished(close);
  const text = async () => (await fetch(url)).text();
  expect(await text()).toMatch(
    /^# HELP transparency_log_monitor_last_success_timestamp_seconds .+\n# TYPE \S+ gauge\n\S+_seconds 0\n# HELP \S+_failed_total/,
  );
  Object.assign(metrics, { checkedAt: 12.5, size: 7, cosignedAt: 100, checksFailed: 2, hasAlarm: true });
  expect(metrics.text(160).match(/^[^#].*$/gm)).toEqual([
    'transparency_log_monitor_last_success_timestamp_seconds 12.5',
    'transparency_log_monitor_size 7',
    'transparency_log_monitor_cosignature_age_seconds 60',
    'transparency_log_monitor_checks_failed_total 2',
    'transparency_log_monitor_alarm 1',
  ]);
  expect((await fetch(new URL('/', url))).status).toBe(404);
  const { port, hostname } = new URL(url);
  await expect(serveMetrics(metrics, { port: Number(port), host: hostname })).rejects.toThrow(
    /^cannot serve metrics: .*EADDRINUSE/,
  );
});
