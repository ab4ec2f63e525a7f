/* In place of the theme's copy of Chart.js, which it loads on each page. No page of the
   administration draws with it; the theme's own script sets these defaults all the same. */
window.Chart = { defaults: { font: {} } };
