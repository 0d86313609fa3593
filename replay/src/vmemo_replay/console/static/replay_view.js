'use strict';
// Shows a report in an element that has the parts of replay_view.html. `options.bank` names the bank whose own messages were
// replayed, and `options.keep` stores the marked cases.
function showReport(view, report, options = {}) {
const messages = report.messages, turns = report.turns, columns = report.columns;
const byId = new Map(messages.map(each => [each.id, each]));
const facts = columns.map(column => new Map((column.facts || []).map(each => [each.id, each])));
const perMessage = columns.map(column => {
  const count = new Map();
  for (const fact of column.facts || []) for (const id of fact.messages || []) count.set(id, (count.get(id) || 0) + 1);
  return count;
});
const numbers = new Map(messages.map((each, number) => [each.id, number]));
const marks = report.marks || {};
const FLAGS = ['questions', 'stale', 'unanswerable', 'noise', ...(columns.length > 1 ? ['different'] : []), 'marked'];
const MAX_FACTS = 200;
let flag = '', search = '', shown = [], current = 0, factColumn = 0;

const $ = id => view.querySelector(`#${id}`);
function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === 'onclick') made.addEventListener('click', value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter(each => each !== null && each !== undefined));
  return made;
}
const chip = (kind, text) => make('span', { class: `chip ${kind}` }, text || kind.replace('_', ' '));
const day = time => new Date(time).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });
const clock = time => new Date(time).toISOString().slice(11, 16);
const number = (value, digits) => Number(value || 0).toLocaleString('en', { maximumFractionDigits: digits || 0 });
const shortened = text => (text.length > 160 ? `${text.slice(0, 159)}…` : text);
const voice = message => message.speaker || message.role[0].toUpperCase() + message.role.slice(1);
const messageOf = turn => messages[turn.number];

function flagsOf(turn) {
  const found = new Set((turn.given || []).flatMap(each => each.flags || []));
  if (turn.question) found.add('questions');
  if (turn.different) found.add('different');
  if (isMarked(messageOf(turn).id)) found.add('marked');
  return found;
}
function isMarked(id) {
  const mark = marks[id];
  return Boolean(mark && (mark.silent || (mark.right || []).length || (mark.wrong || []).length));
}

function renderFilters() {
  const counts = Object.fromEntries(FLAGS.map(name => [name, 0]));
  for (const turn of turns) for (const name of flagsOf(turn)) if (name in counts) counts[name] += 1;
  const all = [['', 'all', turns.length], ...FLAGS.map(name => [name, name, counts[name]])];
  $('filters').replaceChildren(...all.map(([value, name, count]) => make('button', {
    type: 'button', 'data-flag': name, 'aria-pressed': String(flag === value),
    onclick: () => { flag = value; renderFilters(); renderList(); } }, `${name} ${number(count)}`)));
}

function matches(turn) {
  if (flag && !flagsOf(turn).has(flag)) return false;
  return !search || messageOf(turn).text.toLowerCase().includes(search);
}

function renderList() {
  const selected = shown[current];
  shown = turns.filter(matches);
  let last = '';
  const rows = shown.flatMap((turn, index) => {
    const message = messageOf(turn), heading = day(message.time), made = [];
    if (heading !== last) made.push(make('div', { class: 'day' }, heading));
    last = heading;
    const flags = [...flagsOf(turn)].filter(name => name !== 'questions');
    made.push(make('button', { type: 'button', 'data-index': index, onclick: () => select(index) },
      make('span', { class: 'small soft' }, `${clock(message.time)} ${voice(message)} `), ...flags.map(name => chip(name)),
      make('span', { class: 'text' }, message.text)));
    return made;
  });
  $('list').replaceChildren(...(rows.length ? rows : [make('p', { class: 'soft' }, 'No turn matches.')]));
  $('slider').max = Math.max(0, shown.length - 1);
  $('slider').disabled = shown.length < 2;
  select(Math.max(0, shown.indexOf(selected)));
}

function select(index) {
  current = index;
  const turn = shown[index];
  for (const row of $('list').querySelectorAll('[aria-current]')) row.removeAttribute('aria-current');
  $('slider').value = index;
  if (!turn) { $('when').textContent = ''; $('detail').replaceChildren(); return; }
  const row = $('list').querySelector(`[data-index="${index}"]`);
  row.setAttribute('aria-current', 'true');
  const list = $('list'), top = row.offsetTop - list.offsetTop;
  if (top < list.scrollTop || top + row.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top - 40;
  const message = messageOf(turn);
  $('when').textContent = `${day(message.time)}, ${clock(message.time)} UTC`;
  renderDetail(turn, message);
}

function renderDetail(turn, message) {
  const before = messages.slice(Math.max(0, turn.number - 6), turn.number);
  const silent = Boolean(marks[message.id] && marks[message.id].silent);
  const head = make('section', { class: 'card' },
    make('p', { class: 'soft small' }, `${voice(message)}, ${day(message.time)} ${clock(message.time)} UTC, session ${message.session + 1}, turn ${turns.indexOf(turn) + 1} of ${turns.length}`),
    make('blockquote', {}, message.text),
    before.length ? make('details', {}, make('summary', { class: 'small' }, 'What was said before'),
      ...before.map(each => make('p', { class: 'said small' }, make('b', {}, `${voice(each)}: `), each.text))) : null,
    make('p', { class: 'bar small apart' }, make('button', { type: 'button', 'aria-pressed': String(silent), id: 'silent',
      onclick: () => mark(message.id, 'silent') }, 'Nothing should be recalled here')));
  $('detail').replaceChildren(head,
    make('div', { class: 'columns' }, ...(turn.given || []).map((given, n) => column(turn, message, given, n))), known(turn));
}

function column(turn, message, given, n) {
  const answerable = given.answerable === null || given.answerable === undefined ? '' : `${number(100 * given.answerable)}% answerable`;
  const facts = `${number(given.found)} hits, ${number(given.tokens)} tokens, ${number(given.milliseconds)} ms`;
  const cents = given.cents ? `${number(given.cents, 4)} cents` : '';
  const hits = given.hits || [];
  return make('section', { class: 'card', 'data-column': columns[n].label },
    make('h2', {}, columns.length > 1 ? columns[n].label : 'Recall'),
    make('p', { class: 'small soft' }, [answerable, facts, cents].filter(Boolean).join(' · ')),
    make('p', {}, ...(given.flags || []).map(name => chip(name))),
    given.answer ? make('blockquote', {}, given.answer) : null,
    make('ol', {}, ...hits.map(each => hit(message, each, n))),
    hits.length ? null : make('p', { class: 'soft' }, 'Nothing was recalled.'),
    (given.found || 0) > hits.length ? make('p', { class: 'small soft' }, `${number(given.found - hits.length)} more hits are counted and not listed.`) : null,
    context(given, n));
}

function factOf(id, n) {
  const fact = facts[n].get(id), message = byId.get(id);
  return fact || (message ? { id, text: `${voice(message)}: ${message.text}`, said_at: message.time, messages: [id] } : { id, text: id, messages: [] });
}

function keyOf(fact, n) {
  const [id] = fact.messages || [];
  return id && (perMessage[n].get(id) || 0) < 2 ? id : fact.text;
}

function hit(message, each, n) {
  const fact = factOf(each.fact, n), key = keyOf(fact, n), own = marks[message.id] || {};
  const flags = each.flags || [], status = each.status || 'current';
  const newer = fact.outdated_by ? factOf(fact.outdated_by, n) : null;
  const later = newer && status === 'current' && !flags.includes('stale');
  const button = (kind, sign) => make('button', { type: 'button', class: kind, title: kind, 'aria-label': `${kind}: ${fact.text.slice(0, 60)}`,
    'aria-pressed': String((own[kind] || []).includes(key)), onclick: () => mark(message.id, kind, key) }, sign);
  return make('li', { class: `hit ${flags.join(' ')}${each.different ? ' different' : ''}` },
    make('span', { class: 'score' }, each.score.toFixed(3)),
    make('div', {}, make('div', { class: 'text' }, fact.text),
      make('p', { class: 'small soft' }, fact.said_at ? `${day(fact.said_at)} ` : '', status === 'current' ? null : chip(status),
        status === 'current' && flags.includes('stale') ? chip('stale') : null, flags.includes('noise') ? chip('noise') : null,
        each.different ? chip('different') : null, each.verbatim ? chip('verbatim') : null),
      newer ? make('p', { class: 'small soft' }, `${later ? 'later ' : ''}${fact.closed ? '' : 'maybe '}outdated by: ${shortened(newer.text)}`) : null),
    make('span', { class: 'marks' }, button('right', '✓'), button('wrong', '✗')));
}

function context(given, n) {
  const sections = Object.entries(given.context || {});
  return make('details', {},
    make('summary', { class: 'small' }, `Context: ${number(given.context_tokens)} tokens, ${number(given.context_milliseconds)} ms`),
    ...sections.flatMap(([name, ids]) => [make('h3', {}, name),
      make('ol', { class: 'small' }, ...ids.map(id => make('li', {}, factOf(id, n).text)))]));
}

// Several messages may have the same time, so facts are compared by the numbers of their messages.
function knownBefore(fact, turn) {
  const sources = fact.messages || [];
  if (sources.length) return Math.min(...sources.map(id => numbers.get(id) ?? 0)) < turn.number;
  return Date.parse(fact.known_at) < Date.parse(messageOf(turn).time);
}
function outdatedBefore(fact, turn) {
  if (!fact.closed) return false;
  const newer = fact.outdated_by && facts[factColumn].get(fact.outdated_by);
  if (newer) return knownBefore(newer, turn);
  return Boolean(fact.outdated_at) && Date.parse(fact.outdated_at) < Date.parse(messageOf(turn).time);
}
function known(turn) {
  const then = (columns[factColumn].facts || []).filter(fact => knownBefore(fact, turn));
  const holds = then.filter(fact => !outdatedBefore(fact, turn)).reverse();
  const found = search ? holds.filter(fact => fact.text.toLowerCase().includes(search)) : holds;
  const pick = columns.length < 2 ? null : make('select', { 'aria-label': 'Configuration' },
    ...columns.map((each, n) => make('option', { value: n, ...(n === factColumn ? { selected: '' } : {}) }, each.label)));
  if (pick) pick.addEventListener('change', () => { factColumn = Number(pick.value); select(current); });
  return make('section', { class: 'card', id: 'known' },
    make('div', { class: 'bar' }, make('h2', {}, 'What memory knew'), pick),
    make('p', { class: 'small soft' }, `${number(holds.length)} facts that held then, ${number(then.length - holds.length)} that were outdated` +
      (search ? `; ${number(found.length)} with "${search}"` : '')),
    make('details', {}, make('summary', { class: 'small' }, 'Facts, newest first'),
      make('ol', { class: 'small' }, ...found.slice(0, MAX_FACTS).map(fact => make('li', {},
        make('span', { class: 'soft' }, `${day(fact.said_at)} `), fact.instruction ? chip('instruction') : null, fact.text))),
      found.length > MAX_FACTS ? make('p', { class: 'small soft' }, `${number(found.length - MAX_FACTS)} more; search for them above.`) : null));
}

function mark(id, kind, key) {
  const own = { right: [], wrong: [], silent: false, ...marks[id] };
  if (kind === 'silent') own.silent = !own.silent;
  else {
    const other = kind === 'right' ? 'wrong' : 'right', has = own[kind].includes(key);
    own[other] = own[other].filter(each => each !== key);
    own[kind] = has ? own[kind].filter(each => each !== key) : [...own[kind], key];
  }
  marks[id] = own;
  if (!isMarked(id)) delete marks[id];
  renderFilters();
  select(current);
  const row = $('list').querySelector(`[data-index="${current}"]`), badge = row.querySelector('.marked');
  if (isMarked(id) && !badge) row.insertBefore(chip('marked'), row.querySelector('.text'));
  if (!isMarked(id) && badge) badge.remove();
  enableDownloads();
}

const quoted = text => JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, c => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
function textOfKey(key) {
  const message = byId.get(key);
  return message ? `  # ${`${voice(message)}: ${message.text}`.replace(/[^\x20-\x7e\u00a0-\ud7ff]+/g, ' ').slice(0, 100)}` : '';
}
function casesYaml() {
  const lines = [`# Cases of a replay of ${report.files.join(', ')}. Run them with: vmemo test FILE`, 'source:'];
  // A bank is asked as it is now.
  if (options.bank) lines.push('  db: memory.db', `  bank: ${quoted(options.bank)}`);
  else lines.push(`  files: [${report.files.map(quoted).join(', ')}]`);
  if (report.origin) lines.push(`  from: ${quoted(report.origin)}`);
  lines.push('cases:');
  for (const turn of turns) {
    const message = messageOf(turn), own = marks[message.id];
    if (!isMarked(message.id)) continue;
    lines.push(`  - name: ${quoted(message.text.replace(/\s+/g, ' ').slice(0, 80))}`, `    question: ${quoted(message.text)}`);
    if (!options.bank) lines.push(`    at: ${quoted(message.id)}  # ${message.time}`);
    for (const [field, keys] of [['must_recall', own.right || []], ['must_not_recall', own.wrong || []]]) {
      if (keys.length) lines.push(`    ${field}:`, ...keys.map(key => `      - ${quoted(key)}${textOfKey(key)}`));
    }
    if (own.silent) lines.push('    silent: true');
  }
  return `${lines.join('\n')}\n`;
}
function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type })), link = make('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
function enableDownloads() {
  const count = turns.filter(turn => isMarked(messageOf(turn).id)).length;
  $('cases').disabled = !count;
  $('save').disabled = !count;
  $('keep').disabled = !count;
  $('cases').textContent = count ? `Download ${count} case${count > 1 ? 's' : ''} (YAML)` : 'Download cases (YAML)';
}

$('slider').addEventListener('input', () => select(Number($('slider').value)));
$('search').addEventListener('input', () => { search = $('search').value.trim().toLowerCase(); renderList(); });
$('cases').addEventListener('click', () => download('cases.yaml', 'application/yaml', casesYaml()));
$('save').addEventListener('click', () => download('replay.json', 'application/json', JSON.stringify({ ...report, marks })));
$('keep').hidden = !options.keep;
$('keep').addEventListener('click', () => options.keep(casesYaml()));
document.addEventListener('keydown', event => {
  if (!view.isConnected || event.target.closest('input, select, textarea, summary')) return;
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!step || !shown.length) return;
  event.preventDefault();
  select(Math.min(shown.length - 1, Math.max(0, current + step)));
});
renderFilters();
renderList();
enableDownloads();
}
