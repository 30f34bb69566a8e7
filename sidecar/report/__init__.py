"""A dump as a picture, and its report: what the console and a finished dump have in common of it. And what a dump will need.

    chunks     chunks with their marks, and the rows that live changes have replaced;  samples  a dump's, thinned where they are many
    drawing    charts and the interleaving, as SVG;  figures  amounts as people read them
    sizing     what a deployment will need, from its shape;  size_costs  what that is made of, as it was measured
    build      the report: one HTML file;  templates  rules of templates;  pages/  its template, and the style that the console has, too

Pure: values in, text out. It must not know where they come from.
"""
