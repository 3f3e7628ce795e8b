"""The notices that the libraries inside an exported page ask to travel with them; vl-convert's bundle has none."""

LICENSES = """
This page carries these libraries, bundled by vl-convert:

BSD-3-Clause
  Vega, Vega-Lite, Vega-Embed, Vega-Tooltip, Vega-Themes, Vega-Interpreter
    Copyright (c) 2013 Trifacta Inc.; Copyright (c) 2015-2025 University of Washington Interactive Data Lab
    and Vega contributors
  vl-convert
    Copyright (c) 2023 Jon Mease
ISC
  D3 modules, internmap, topojson-client
    Copyright 2010-2025 Mike Bostock; Copyright 2012-2019 Michael Bostock
  d3-delaunay
    Copyright 2018-2021 Observable, Inc.; Copyright 2021 Mapbox
  delaunator
    Copyright (c) 2021 Mapbox
  semver
    Copyright (c) Isaac Z. Schlueter and Contributors
MIT
  fast-json-patch
    Copyright (c) 2013, 2014, 2020 Joachim Wester
  json-stringify-pretty-compact
    Copyright (c) 2014-2021 Simon Lydell
  lodash.debounce
    Copyright OpenJS Foundation and other contributors; based on Underscore.js, copyright Jeremy Ashkenas,
    DocumentCloud and
    Investigative Reporters & Editors
  d3-geo, the parts from GeographicLib
    Copyright 2008-2012 Charles Karney
Apache-2.0 (http://www.apache.org/licenses/LICENSE-2.0)
  color schemes of d3-scale-chromatic
    Copyright (c) 2002 Cynthia Brewer, Mark Harrower, and The Pennsylvania State University
Public domain (Unlicense)
  robust-predicates

BSD-3-Clause

Redistribution and use in source and binary forms, with or without modification, are permitted provided that
the following conditions are met:

1. Redistributions of source code must retain the above copyright notice, this list of conditions and the
   following disclaimer.

2. Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the
   following disclaimer in the documentation and/or other materials provided with the distribution.

3. Neither the name of the copyright holder nor the names of its contributors may be used to endorse or
   promote products derived from this software without specific prior written permission.

THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED
WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A
PARTICULAR PURPOSE ARE DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE FOR ANY
DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO,
PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR
OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH
DAMAGE.

ISC

Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby
granted, provided that the above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE
INCLUDING ALL IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR
ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE,
DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN
CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.

MIT

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without
limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the
Software, and to permit persons to whom the Software is furnished to do so, subject to the following
conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions
of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED
TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL
THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER
DEALINGS IN THE SOFTWARE."""
