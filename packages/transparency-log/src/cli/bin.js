#!/usr/bin/env node
import { main } from '@event-sourced/transparency-log/cli';

await main(process);
