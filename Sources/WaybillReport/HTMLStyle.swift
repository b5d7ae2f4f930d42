/// The looks of the page: light, dark, narrow and on paper.
enum HTMLStyle {
    static let text = """
        :root{color-scheme:light dark;--back:#fff;--ink:#1a1d21;--muted:#5b6470;--line:#d9dde2;--note:#fff6df;--link:#1f5fbf}
        @media (prefers-color-scheme:dark){:root{--back:#14171b;--ink:#e8eaed;--muted:#a3abb5;--line:#343a42;--note:#2b2617;\
        --link:#7fb0ff}}
        *{box-sizing:border-box}
        body{margin:0 auto;max-width:64rem;padding:1.5rem;background:var(--back);color:var(--ink);\
        font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
        h1{font-size:1.6rem;margin:0}
        h2{font-size:1.2rem;margin:0 0 .25rem}
        header p{margin:.25rem 0;color:var(--muted)}
        nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;padding:0;margin:1rem 0;list-style:none}
        a{color:var(--link)}
        section{border-top:1px solid var(--line);padding:1.25rem 0;margin-top:1.25rem}
        .definition{margin:0 0 .75rem;color:var(--muted);max-width:48rem}
        .notes{margin:0 0 .75rem;padding:.5rem .75rem .5rem 1.75rem;background:var(--note);border-radius:4px}
        .left,.unit{color:var(--muted)}
        .unit{font-weight:400}
        figure{margin:0 0 1rem;overflow-x:auto}
        .wide{overflow-x:auto}
        table{border-collapse:collapse;font-variant-numeric:tabular-nums}
        th,td{padding:.3rem .75rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
        thead th{color:var(--muted);border-bottom-width:2px}
        tbody th{font-weight:500}
        th,td{overflow-wrap:anywhere;min-width:4rem}
        .n{text-align:right;white-space:nowrap}
        .day{white-space:nowrap}
        :focus-visible{outline:2px solid var(--link);outline-offset:2px}
        @media (max-width:40rem){body{padding:.75rem;font-size:14px}th,td{padding:.25rem .4rem}}
        @media print{:root{color-scheme:light;--back:#fff;--ink:#000;--muted:#444;--line:#bbb;--note:#f4f4f4;--link:#000}\
        body{max-width:none;padding:0}nav{display:none}figure,tr{break-inside:avoid}h2{break-after:avoid}\
        .wide,figure{overflow:visible}thead{display:table-header-group}}

        """ + SVGChart.stylesheet
}
