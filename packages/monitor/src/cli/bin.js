#!/usr/bin/env node
import { main } from '@event-sourced/monitor';

await main(process);
