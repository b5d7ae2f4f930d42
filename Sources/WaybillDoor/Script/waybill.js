(function (w, d, n) {
  'use strict';
  var script = d.currentScript || {}, o = script.dataset || {}, early = w.waybill || [];
  var host = o.host || (script.src || '').replace(/\/waybill\.js.*$/, ''), key = o.key;
  var memory = {}, sent = {}, wait = 0, timer, may = o.consent !== 'required', P = 'waybill.';
  // Storage may be full, or forbidden: then memory has to do.
  function get(k) { try { return w.localStorage.getItem(P + k); } catch (e) { return null; } }
  function put(k, v) { try { w.localStorage.setItem(P + k, v); return 1; } catch (e) { return 0; } }
  function cut(k) { try { w.localStorage.removeItem(P + k); } catch (e) { } }
  function id() {
    var b = w.crypto.getRandomValues(new Uint8Array(16)), t = Date.now(), i, s = '';
    for (i = 5; i >= 0; i--) { b[i] = t % 256; t = Math.floor(t / 256); }
    b[6] = b[6] & 15 | 112; b[8] = b[8] & 63 | 128;
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
  function page() {
    return { path: w.location.pathname, url: w.location.href.split('#')[0], title: d.title, referrer: d.referrer, search: w.location.search };
  }
  function add(type, event) {
    if (!may || !key) return;
    event.type = type; event.messageId = id(); event.timestamp = new Date().toISOString();
    event.anonymousId = person();
    var user = get('user');
    if (user && !event.userId) event.userId = user;
    event.context = { page: page(), locale: n.language, userAgent: n.userAgent, library: { name: 'waybill.js' } };
    // One entry an event: tabs share the storage and do not overwrite each other.
    if (!put('e.' + event.messageId, JSON.stringify(event))) memory[event.messageId] = event;
    plan(200);
  }
  function plan(ms) { clearTimeout(timer); timer = setTimeout(flush, ms); }
  function waiting() {
    var list = [], k, i, v;
    for (k in memory) list.push(memory[k]);
    try {
      for (i = 0; i < w.localStorage.length; i++) {
        k = w.localStorage.key(i);
        if (k.indexOf(P + 'e.') === 0) {
          try { v = JSON.parse(w.localStorage.getItem(k)); if (v) list.push(v); } catch (e) { w.localStorage.removeItem(k); }
        }
      }
    } catch (e) { }
    // Ids begin with the time.
    return list.sort(function (a, b) { return a.messageId < b.messageId ? -1 : 1; });
  }
  // At most 50 events and 60 kB, which is what a closing page may send.
  function batch(list) {
    var part = [], size = 0, i, s;
    for (i = 0; i < list.length && part.length < 50; i++) {
      s = JSON.stringify(list[i]);
      if (size && size + s.length * 3 > 6e4) break;
      size += s.length * 3; part.push(s);
    }
    return part;
  }
  function body(part) { return '{"writeKey":"' + key + '","sentAt":"' + new Date().toISOString() + '","batch":[' + part.join() + ']}'; }
  function done(part) {
    part.forEach(function (s) { var m = JSON.parse(s).messageId; cut('e.' + m); delete memory[m]; delete sent[m]; });
  }
  var busy;
  function flush() {
    var part = batch(waiting());
    if (busy || !may || !part.length) return;
    busy = 1;
    var text = body(part);
    // A text needs no preflight.
    w.fetch(host + '/v1/b', { method: 'POST', body: text, keepalive: text.length * 3 < 64e3, headers: { 'Content-Type': 'text/plain' } })
      .then(function (r) { return r.status; }, function () { return 0; })
      .then(function (status) {
        busy = 0;
        // What no repetition cures is given up; the rest comes again, with the same ids.
        if (status >= 200 && status < 300 || status >= 400 && status < 500 && status !== 408 && status !== 429) {
          done(part); wait = 0; plan(0);
        } else {
          wait = Math.min(6e4, (wait || 1000) * 2);
          plan(wait * (0.5 + Math.random()));
        }
      });
  }
  function leave() {
    var list = may ? waiting().filter(function (e) { return !sent[e.messageId]; }) : [], part;
    // A beacon has no answer: its events stay, and the door knows them when they come again.
    while ((part = batch(list)).length && n.sendBeacon && n.sendBeacon(host + '/v1/b', body(part))) {
      part.forEach(function (s) { sent[JSON.parse(s).messageId] = 1; });
      list = list.slice(part.length);
    }
  }
  var last;
  function view(name, properties) {
    if (!may) return;
    var p = page(), k;
    for (k in properties) p[k] = properties[k];
    last = w.location.pathname + w.location.search;
    add('page', { name: typeof name === 'string' ? name : undefined, properties: p });
  }
  function moved() { if (o.pages !== 'manual' && w.location.pathname + w.location.search !== last) view(); }
  var api = w.waybill = {
    track: function (event, properties) { add('track', { event: event, properties: properties || {} }); },
    identify: function (user, traits) { if (may && user) put('user', user); add('identify', { userId: user, traits: traits || {} }); },
    page: view,
    consent: function (yes) {
      may = yes;
      if (yes) { moved(); plan(0); return; }
      waiting().forEach(function (e) { cut('e.' + e.messageId); });
      memory = {}; api.reset();
    },
    reset: function () {
      cut('user'); cut('anon'); anon = 0;
      if (o.cookie !== undefined) d.cookie = 'waybill=;path=/;max-age=0' + (o.cookie ? ';domain=' + o.cookie : '');
    },
    flush: flush,
    push: function (call) { api[call[0]].apply(api, call.slice(1)); }
  };
  ['pushState', 'replaceState'].forEach(function (name) {
    var was = w.history[name];
    w.history[name] = function () { var r = was.apply(this, arguments); setTimeout(moved); return r; };
  });
  w.addEventListener('popstate', moved);
  w.addEventListener('online', function () { wait = 0; plan(0); });
  w.addEventListener('pagehide', leave);
  d.addEventListener('visibilitychange', function () { if (d.visibilityState === 'hidden') leave(); });
  for (var i = 0; i < early.length; i++) api.push(early[i]);
  moved();
  plan(0);
})(window, document, navigator);
