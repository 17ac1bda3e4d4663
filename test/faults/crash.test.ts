import { test } from 'vitest';
import { killUnderLoad } from '../support/crash.ts';

test('a server killed twenty times under load keeps what it has acknowledged, once, and lists what it keeps', () =>
  killUnderLoad(20));
