// @ts-check
// A QR code (ISO/IEC 18004) as SVG: text as bytes, error correction level M, versions 1 to 12 (up to 287 bytes).

import { s } from './dom.js';

// By version, from 1: error correction codewords per block, and blocks.
const ECC = [10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22];
const BLOCKS = [1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8];
const LEVEL_M = 0;
const QUIET = 4;

/**
 * Multiplication in GF(2^8) with the polynomial of QR codes.
 * @param {number} a
 * @param {number} b
 */
function times(a, b) {
  let product = 0;
  for (let bit = 7; bit >= 0; bit -= 1) {
    product = (product << 1) ^ ((product >>> 7) * 0x11d);
    product ^= ((b >>> bit) & 1) * a;
  }
  return product;
}

/**
 * @param {number} degree
 * @returns {number[]}
 */
function divisor(degree) {
  const result = new Array(degree).fill(0);
  result[degree - 1] = 1;
  let root = 1;
  for (let i = 0; i < degree; i += 1) {
    for (let j = 0; j < degree; j += 1) {
      result[j] = times(result[j], root);
      if (j + 1 < degree) result[j] ^= result[j + 1];
    }
    root = times(root, 2);
  }
  return result;
}

/**
 * @param {number[]} data
 * @param {number[]} by
 */
function remainder(data, by) {
  const result = by.map(() => 0);
  for (const byte of data) {
    const factor = byte ^ (result.shift() ?? 0);
    result.push(0);
    by.forEach((coefficient, i) => { result[i] ^= times(coefficient, factor); });
  }
  return result;
}

/**
 * How many bits of a version hold data and error correction.
 * @param {number} version
 */
function rawBits(version) {
  let bits = (16 * version + 128) * version + 64;
  if (version >= 2) {
    const marks = Math.floor(version / 7) + 2;
    bits -= (25 * marks - 10) * marks - 55;
    if (version >= 7) bits -= 36;
  }
  return bits;
}

/** @param {number} version */
const rawBytes = (version) => Math.floor(rawBits(version) / 8);
/** @param {number} version */
const dataBytes = (version) => rawBytes(version) - ECC[version - 1] * BLOCKS[version - 1];

/**
 * The bytes of the text, with their header and padding.
 * @param {number[]} bytes
 * @param {number} version
 */
function encode(bytes, version) {
  /** @type {number[]} */
  const bits = [];
  /**
   * @param {number} number
   * @param {number} length
   */
  const push = (number, length) => { for (let i = length - 1; i >= 0; i -= 1) bits.push((number >>> i) & 1); };
  push(4, 4);
  push(bytes.length, version < 10 ? 8 : 16);
  bytes.forEach((byte) => push(byte, 8));
  const room = dataBytes(version) * 8;
  push(0, Math.min(4, room - bits.length));
  push(0, (8 - (bits.length % 8)) % 8);
  for (let pad = 0xec; bits.length < room; pad ^= 0xec ^ 0x11) push(pad, 8);
  const result = [];
  for (let i = 0; i < bits.length; i += 8) result.push(parseInt(bits.slice(i, i + 8).join(''), 2));
  return result;
}

/**
 * Adds error correction to each block, and takes from the blocks in turn.
 * @param {number[]} data
 * @param {number} version
 * @returns {number[]}
 */
function interleave(data, version) {
  const count = BLOCKS[version - 1];
  const length = ECC[version - 1];
  const all = rawBytes(version);
  const shortBlocks = count - (all % count);
  const shortLength = Math.floor(all / count);
  const by = divisor(length);
  /** @type {Array<Array<number | null>>} */
  const blocks = [];
  for (let i = 0, from = 0; i < count; i += 1) {
    const size = shortLength - length + (i < shortBlocks ? 0 : 1);
    const part = data.slice(from, from + size);
    from += size;
    blocks.push([...part, ...(i < shortBlocks ? [null] : []), ...remainder(part, by)]);
  }
  return blocks[0].flatMap((_, i) => blocks.flatMap((block) => block[i] ?? []));
}

/**
 * @param {number} version
 * @param {number} size
 */
function alignment(version, size) {
  if (version === 1) return [];
  const count = Math.floor(version / 7) + 2;
  const step = Math.ceil((size - 13) / (count * 2 - 2)) * 2;
  const places = [6];
  for (let at = size - 7; places.length < count; at -= step) places.splice(1, 0, at);
  return places;
}

/**
 * The fixed patterns: `set(x, y, isDark)` also marks the place as taken.
 * @param {number} version
 * @param {number} size
 * @param {(x: number, y: number, isDark: boolean) => void} set
 */
function drawFixed(version, size, set) {
  for (let i = 0; i < size; i += 1) {
    set(6, i, i % 2 === 0);
    set(i, 6, i % 2 === 0);
  }
  for (const [cx, cy] of [[3, 3], [size - 4, 3], [3, size - 4]]) {
    for (let dy = -4; dy <= 4; dy += 1) {
      for (let dx = -4; dx <= 4; dx += 1) {
        const ring = Math.max(Math.abs(dx), Math.abs(dy));
        set(cx + dx, cy + dy, ring !== 2 && ring !== 4);
      }
    }
  }
  const places = alignment(version, size);
  const last = places.length - 1;
  places.forEach((cx, i) => places.forEach((cy, j) => {
    if ((i === 0 && j === 0) || (i === 0 && j === last) || (i === last && j === 0)) return;
    for (let dy = -2; dy <= 2; dy += 1) {
      for (let dx = -2; dx <= 2; dx += 1) set(cx + dx, cy + dy, Math.max(Math.abs(dx), Math.abs(dy)) !== 1);
    }
  }));
  if (version < 7) return;
  let rest = version;
  for (let i = 0; i < 12; i += 1) rest = (rest << 1) ^ ((rest >>> 11) * 0x1f25);
  const bits = (version << 12) | rest;
  for (let i = 0; i < 18; i += 1) {
    const isDark = ((bits >>> i) & 1) === 1;
    const a = size - 11 + (i % 3);
    const b = Math.floor(i / 3);
    set(a, b, isDark);
    set(b, a, isDark);
  }
}

/**
 * @param {number} mask
 * @param {number} size
 * @param {(x: number, y: number, isDark: boolean) => void} set
 */
function drawFormat(mask, size, set) {
  const data = (LEVEL_M << 3) | mask;
  let rest = data;
  for (let i = 0; i < 10; i += 1) rest = (rest << 1) ^ ((rest >>> 9) * 0x537);
  const bits = ((data << 10) | rest) ^ 0x5412;
  /** @param {number} i */
  const bit = (i) => ((bits >>> i) & 1) === 1;
  for (let i = 0; i <= 5; i += 1) set(8, i, bit(i));
  set(8, 7, bit(6));
  set(8, 8, bit(7));
  set(7, 8, bit(8));
  for (let i = 9; i < 15; i += 1) set(14 - i, 8, bit(i));
  for (let i = 0; i < 8; i += 1) set(size - 1 - i, 8, bit(i));
  for (let i = 8; i < 15; i += 1) set(8, size - 15 + i, bit(i));
  set(8, size - 8, true);
}

/**
 * The squares of the code: a list of rows, true where it is dark.
 * @param {string} text
 * @returns {boolean[][]}
 */
export function squares(text) {
  const bytes = [...new TextEncoder().encode(text)];
  const version = ECC.findIndex((_, i) => dataBytes(i + 1) >= bytes.length + (i + 1 < 10 ? 2 : 3)) + 1;
  if (version === 0) throw new RangeError('too long for a QR code');
  const size = version * 4 + 17;
  const dark = Array.from({ length: size }, () => new Array(size).fill(false));
  const taken = Array.from({ length: size }, () => new Array(size).fill(false));
  /**
   * @param {number} x
   * @param {number} y
   * @param {boolean} isDark
   */
  const set = (x, y, isDark) => {
    if (x < 0 || y < 0 || x >= size || y >= size) return;
    dark[y][x] = isDark;
    taken[y][x] = true;
  };
  drawFixed(version, size, set);
  // One mask for all: any of the eight can be read, and this one gives an even mix of dark and light.
  drawFormat(0, size, set);
  const all = interleave(encode(bytes, version), version);
  let at = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let i = 0; i < size; i += 1) {
      const isUp = ((right + 1) & 2) === 0;
      const y = isUp ? size - 1 - i : i;
      for (const x of [right, right - 1]) {
        if (taken[y][x]) continue;
        const bit = at < all.length * 8 && ((all[at >>> 3] >>> (7 - (at & 7))) & 1) === 1;
        dark[y][x] = bit !== ((x + y) % 2 === 0);
        at += 1;
      }
    }
  }
  return dark;
}

/**
 * The code as a picture: always dark on white, because cameras expect that.
 * @param {string} text
 * @param {string} label
 */
export function qrCode(text, label) {
  const rows = squares(text);
  const size = rows.length + 2 * QUIET;
  const path = rows.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x + QUIET} ${y + QUIET}h1v1h-1z` : ''))).join('');
  return s('svg', { viewBox: `0 0 ${size} ${size}`, width: 220, height: 220, role: 'img', 'aria-label': label,
    'shape-rendering': 'crispEdges' },
    s('rect', { width: size, height: size, fill: '#fff' }), s('path', { d: path, fill: '#000' }));
}
