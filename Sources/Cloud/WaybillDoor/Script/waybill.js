(function (w, d, n) {
  'use strict';
  // A module has no `currentScript`.
  var script = d.currentScript || d.querySelector('script[type=module][data-key]') || {}, o = script.dataset || {}, early = w.waybill || [];
  // A second tag changes nothing, and one without a key leaves the calls to the one that has it.
  if (early.track) return;
  if (!o.key) return warn('its tag has no data-key');
  // Its folder, whatever its name.
  var host = o.host || script.src.replace(/\/[^\/?#]*([?#].*)?$/, ''), key = o.key;
  var memory = {}, kept = {}, sent = {}, wait = 0, room = 0, count = 0, soon, timer, may = o.consent !== 'required', P = 'waybill.';
  if (o.gpc === 'respect' && (n.globalPrivacyControl || n.doNotTrack === '1')) may = false;
  function warn(text) { if (w.console) w.console.warn('waybill.js: ' + text); }
  // A call never throws into its page; one that fails costs itself.
  function safe(call) {
    return function () {
      try { return call.apply(this, arguments); } catch (e) { if (!api.failed++) warn(e); }
    };
  }
  // Storage may be full, or forbidden: then memory has to do, and what it has counts.
  function get(k) { try { return k in kept ? kept[k] : w.localStorage.getItem(P + k); } catch (e) { return null; } }
  function set(k, v) { try { w.localStorage.setItem(P + k, v); return 1; } catch (e) { return 0; } }
  function put(k, v) { if (set(k, v)) delete kept[k]; else kept[k] = v; }
  function cut(k) { delete kept[k]; try { w.localStorage.removeItem(P + k); } catch (e) { } }
  function read(k) { return memory[k] || get('e.' + k) || ''; }
  function gone(k) { cut('e.' + k); delete memory[k]; delete sent[k]; }
  function id() {
    var b = w.crypto.getRandomValues(new Uint8Array(16)), t = Date.now(), i, s = '';
    for (i = 5; i >= 0; i--) { b[i] = t % 256; t = Math.floor(t / 256); }
    // Those of one millisecond are in order, too.
    b[6] = count >> 8 & 15 | 112; b[7] = count++; b[8] = b[8] & 63 | 128;
    for (i = 0; i < 16; i++) s += (i === 4 || i === 6 || i === 8 || i === 10 ? '-' : '') + (b[i] + 256).toString(16).slice(1);
    return s;
  }
  function cookie(v) {
    if (o.cookie === undefined) return null;
    if (v) d.cookie = 'waybill=' + v + ';path=/;max-age=31536000;samesite=lax' + (w.location.protocol === 'https:' ? ';secure' : '') + (o.cookie ? ';domain=' + o.cookie : '');
    return (d.cookie.match(/(?:^|; )waybill=([^;]*)/) || [])[1];
  }
  var anon;
  function person() {
    if (!anon) {
      anon = cookie() || get('anon') || id();
      put('anon', anon); cookie(anon);
    }
    return anon;
  }
  // `#/cart` is a page of its own, `#reviews` a place on one.
  function hash() { return /^#[!\/]/.test(w.location.hash) ? w.location.hash : ''; }
  function route() { return w.location.pathname + w.location.search + hash(); }
  var last, here, from = d.referrer;
  function page() {
    return { path: w.location.pathname, url: w.location.href.split('#')[0] + hash(), title: d.title, referrer: from, search: w.location.search };
  }
  function add(type, event) {
    if (!may || !key) return;
    event.type = type; event.messageId = id(); event.timestamp = new Date().toISOString();
    event.anonymousId = person();
    var user = get('user');
    if (user && !event.userId) event.userId = user;
    event.context = { page: page(), locale: n.language, userAgent: n.userAgent, library: { name: 'waybill.js' } };
    // One entry an event: tabs share the storage and do not overwrite each other.
    var k = event.messageId, s = JSON.stringify(event);
    if (!set('e.' + k, s)) memory[k] = s;
    if ((room -= weight(s)) < 0) waiting();
    // Events without a pause do not put it off, and while requests fail they do not hurry it.
    if (!soon && !wait) plan(200, 1);
  }
  function plan(ms, event) { soon = event; clearTimeout(timer); timer = setTimeout(flush, ms); }
  // At least 1,000 characters an event: a million is at most 1,000 events.
  function weight(s) { return Math.max(1e3, s.length); }
  // The ids of the newest events that have room, oldest first; drops the others.
  function waiting() {
    var list = Object.keys(memory);
    try {
      Object.keys(w.localStorage).forEach(function (k) { if (k.indexOf(P + 'e.') === 0) list.push(k.slice(10)); });
    } catch (e) { }
    room = 1e6;
    // Ids begin with the time.
    return list.sort().reverse().filter(function (k) {
      var size = weight(read(k));
      // One that has no room alone takes none from the others.
      if (size <= 1e6 && (room -= size) >= 0) return 1;
      gone(k); api.dropped++;
    }).reverse();
  }
  // Ids and texts of at most 50 events and 60 kB, which is what a closing page may send.
  function batch(list) {
    var part = [], size = 0;
    list.some(function (k) {
      var s = read(k);
      try { JSON.parse(s); } catch (e) { return gone(k); }
      if (part.length > 49 || size && size + s.length * 3 > 6e4) return 1;
      size += s.length * 3; part.push([k, s]);
    });
    return part;
  }
  function body(part) {
    return '{"writeKey":"' + key + '","sentAt":"' + new Date().toISOString() + '","batch":[' + part.map(function (e) { return e[1]; }).join() + ']}';
  }
  var busy;
  function flush() {
    soon = 0;
    if (busy) return;
    var part = may ? batch(waiting()) : [];
    if (!part.length) { wait = 0; return; }
    busy = 1;
    var text = body(part);
    // A text needs no preflight. A blocker's own `fetch` may throw.
    new Promise(function (go) {
      go(w.fetch(host + '/v1/b', { method: 'POST', body: text, keepalive: text.length * 3 < 64e3, headers: { 'Content-Type': 'text/plain' } }));
    }).then(function (r) { return r.status; }).catch(function () { return 0; })
      .then(function (status) {
        busy = 0;
        // What no repetition cures is given up; the rest comes again, with the same ids.
        if (status >= 200 && status < 300 || status >= 400 && status < 500 && status !== 408 && status !== 429) {
          part.forEach(function (e) { gone(e[0]); }); wait = 0; plan(0);
        } else {
          wait = Math.min(6e4, (wait || 1000) * 2);
          plan(wait * (0.5 + Math.random()));
        }
      });
  }
  function leave() {
    var list = may ? waiting() : [], was = sent, part;
    sent = {};
    list.forEach(function (k) { sent[k] = was[k]; });
    // A beacon has no answer: its events stay, and the door knows them when they come again.
    while ((part = batch(list = list.filter(function (k) { return !sent[k]; }))).length && n.sendBeacon && n.sendBeacon(host + '/v1/b', body(part)))
      part.forEach(function (e) { sent[e[0]] = 1; });
  }
  function view(name, properties) {
    if (!may) return;
    if (last !== undefined && last !== route()) from = here;
    var p = page(), k;
    last = route(); here = p.url;
    for (k in properties) p[k] = properties[k];
    add('page', { name: typeof name === 'string' ? name : undefined, properties: p });
  }
  function moved() { if (o.pages !== 'manual' && route() !== last) view(); }
  var api = w.waybill = {
    track: function (event, properties) { add('track', { event: event, properties: properties || {} }); },
    identify: function (user, traits) { if (may && user) put('user', user); add('identify', { userId: user, traits: traits || {} }); },
    page: view,
    consent: function (yes) {
      may = yes;
      if (yes) { moved(); plan(0); return; }
      waiting().forEach(gone); api.reset();
    },
    reset: function () {
      cut('user'); cut('anon'); anon = 0;
      if (o.cookie !== undefined) d.cookie = 'waybill=;path=/;max-age=0' + (o.cookie ? ';domain=' + o.cookie : '');
    },
    flush: flush,
    push: function (call) { api[call[0]].apply(api, [].slice.call(call, 1)); }
  };
  Object.keys(api).forEach(function (name) { api[name] = safe(api[name]); });
  moved = safe(moved);
  api.dropped = api.failed = 0;
  ['pushState', 'replaceState'].forEach(function (name) {
    var was = w.history[name];
    w.history[name] = function () { var r = was.apply(this, arguments); setTimeout(moved); return r; };
  });
  w.addEventListener('popstate', moved);
  w.addEventListener('hashchange', moved);
  // A page that comes back as it was is seen again.
  w.addEventListener('pageshow', function (e) { if (e.persisted && o.pages !== 'manual') api.page(); });
  // Another tab has written: the next event counts what is there.
  w.addEventListener('storage', function () { room = 0; });
  w.addEventListener('online', function () { wait = 0; plan(0); });
  w.addEventListener('pagehide', leave);
  d.addEventListener('visibilitychange', function () { if (d.visibilityState === 'hidden') leave(); });
  for (var i = 0; i < early.length; i++) api.push(early[i]);
  moved();
  plan(0);
})(window, document, navigator);
