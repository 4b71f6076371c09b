// SPDX-License-Identifier: Apache-2.0
// Draws the data of results/robot_scene.py with WebGL 2. Matrices are lists of 16 numbers, column
// by column. The scene turns by dragging, and zooms by the wheel or two fingers.
'use strict';

function decoded(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Kind(bytes.buffer);
}

const matrices = {
  product(a, b) {
    const c = new Array(16);
    for (let i = 0; i < 4; i++)
      for (let j = 0; j < 4; j++)
        c[4 * j + i] = a[i] * b[4 * j] + a[4 + i] * b[4 * j + 1] + a[8 + i] * b[4 * j + 2]
          + a[12 + i] * b[4 * j + 3];
    return c;
  },
  // rotation by q about `turn`, or translation by q along `slide`
  joint(turn, slide, q) {
    const [x, y, z] = turn, c = Math.cos(q), s = Math.sin(q), k = 1 - c;
    if (x === 0 && y === 0 && z === 0)
      return [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, q * slide[0], q * slide[1], q * slide[2], 1];
    return [c + x * x * k, y * x * k + z * s, z * x * k - y * s, 0, x * y * k - z * s, c + y * y * k,
      z * y * k + x * s, 0, x * z * k + y * s, y * z * k - x * s, c + z * z * k, 0, 0, 0, 0, 1];
  },
  perspective(angle, aspect, near, far) {
    const f = 1 / Math.tan(angle / 2), d = near - far;
    return [f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (near + far) / d, -1, 0, 0, 2 * near * far / d, 0];
  },
  // from `distance` away from `centre`, z up
  view(centre, azimuth, elevation, distance) {
    const ca = Math.cos(azimuth), sa = Math.sin(azimuth), ce = Math.cos(elevation),
      se = Math.sin(elevation);
    const right = [-sa, ca, 0], up = [-se * ca, -se * sa, ce], back = [ce * ca, ce * sa, se];
    const dot = (v) => v[0] * centre[0] + v[1] * centre[1] + v[2] * centre[2];
    return [right[0], up[0], back[0], 0, right[1], up[1], back[1], 0, right[2], up[2], back[2], 0,
      -dot(right), -dot(up), -dot(back) - distance, 1];
  },
};

const VERTEX = `#version 300 es
uniform mat4 view, model, projection;
in vec3 place;
out vec3 seen;
void main() {
  vec4 p = view * model * vec4(place, 1.0);
  seen = p.xyz;
  gl_Position = projection * p;
}`;

// flat shading: the normal follows from the derivatives, and always faces the viewer
const FRAGMENT = `#version 300 es
precision highp float;
uniform vec4 colour;
uniform bool plain;
in vec3 seen;
out vec4 shade;
void main() {
  if (plain) { shade = colour; return; }
  vec3 normal = normalize(cross(dFdx(seen), dFdy(seen)));
  if (dot(normal, seen) > 0.0) normal = -normal;
  float light = 0.42 + 0.38 * max(dot(normal, normalize(vec3(0.4, 0.8, 0.6))), 0.0)
    + 0.25 * max(dot(normal, normalize(-seen)), 0.0);
  shade = vec4(colour.rgb * light, colour.a);
}`;

// Returns {draw(time), reset(), move(position), poses(time)}, the latter with a matrix for each
// joint; null where the browser has no WebGL 2.
function robotScene(canvas, data) {
  const gl = canvas.getContext('webgl2', {antialias: true});
  if (!gl) return null;
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  gl.useProgram(program);
  const at = (name) => gl.getUniformLocation(program, name);
  const uniform = {view: at('view'), model: at('model'), projection: at('projection'),
    colour: at('colour'), plain: at('plain')};
  const place = gl.getAttribLocation(program, 'place');

  function buffers(vertices, kind, normalised, faces) {
    const vao = gl.createVertexArray();
    gl.bindVertexArray(vao);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, vertices, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, 3, kind, normalised, 0, 0);
    if (faces) {
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, faces, gl.STATIC_DRAW);
    }
    return {vao, count: faces ? faces.length : vertices.length / 3};
  }
  const loaded = (shape) => ({...shape,
    ...buffers(decoded(shape.vertices, Uint16Array), gl.UNSIGNED_SHORT, true,
      decoded(shape.faces, Uint16Array))});
  const robot = {...data.robot, shapes: data.robot.shapes.map(loaded),
    values: decoded(data.robot.position, Float32Array)};
  const still = data.shapes.map(loaded);
  const lines = data.lines && decoded(data.lines, Float32Array);
  const cells = [];
  const half = Math.ceil(2 * (data.radius + Math.hypot(data.centre[0], data.centre[1]))) / 2;
  for (let i = -half; i <= half + 1e-9; i += 0.25)
    cells.push(i, -half, 0, i, half, 0, -half, i, 0, half, i, 0);
  const grid = buffers(new Float32Array(cells), gl.FLOAT, false);
  const segment = buffers(new Float32Array([0, 0, 0, 1, 0, 0]), gl.FLOAT, false);
  gl.enable(gl.DEPTH_TEST);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);

  const START = {azimuth: 0.7, elevation: 0.35, zoom: 1};
  let eye = {...START}, latest = 0;
  const identity = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1];

  function colourOf(name) {
    const text = getComputedStyle(canvas).getPropertyValue(name).trim();
    return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16) / 255);
  }

  // the value of each column at a share of the duration, linear between samples
  function sampled(values, columns, share) {
    const last = values.length / columns - 1, x = share * last, i = Math.min(Math.floor(x), last - 1);
    return Array.from({length: columns}, (_, j) => {
      const a = values[i * columns + j], b = values[(i + 1) * columns + j];
      return a + (x - i) * (b - a);
    });
  }

  function poses(share) {
    const q = sampled(robot.values, robot.columns, share), found = [identity];
    for (const j of robot.joints)
      found.push(matrices.product(matrices.product(found[j.parent], j.placement),
        matrices.joint(j.turn, j.slide, j.multiplier * q[j.column] + j.offset)));
    return found;
  }

  function put(buffer, model, colour, opacity, mode, plain) {
    gl.bindVertexArray(buffer.vao);
    gl.uniformMatrix4fv(uniform.model, false, model);
    gl.uniform4f(uniform.colour, ...colour, opacity);
    gl.uniform1i(uniform.plain, plain ? 1 : 0);
    if (mode === gl.TRIANGLES) gl.drawElements(mode, buffer.count, gl.UNSIGNED_SHORT, 0);
    else gl.drawArrays(mode, 0, buffer.count);
  }

  function draw(time = latest) {
    latest = time;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const share = Math.min(Math.max(time / data.duration, 0), 1);
    // the whole sphere is seen, whatever the shape of the canvas
    const angle = 0.75, across = Math.min(width / height, 1) * Math.tan(angle / 2);
    const distance = data.radius / Math.sin(Math.atan(across)) / eye.zoom;
    gl.viewport(0, 0, width, height);
    gl.clearColor(...colourOf('--sky'), 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix4fv(uniform.view, false,
      matrices.view(data.centre, eye.azimuth, eye.elevation, distance));
    gl.uniformMatrix4fv(uniform.projection, false,
      matrices.perspective(angle, width / height, 0.02 * distance, distance + 20 * data.radius));
    put(grid, identity, colourOf('--grid'), 1, gl.LINES, true);
    const tones = [colourOf('--link'), colourOf('--link-2')], hint = colourOf('--obstacle');
    const later = still.map((shape) => [shape, shape.matrix, hint, shape.plane ? 0.12 : 0.5]);
    const found = poses(share);
    for (const shape of robot.shapes) {
      const entry = [shape, matrices.product(found[shape.joint], shape.matrix),
        shape.obstacle || shape.marked ? hint : shape.colour || tones[shape.joint % 2],
        shape.obstacle ? 0.5 : 1];
      if (shape.obstacle) later.push(entry);
      else put(...entry, gl.TRIANGLES, false);
    }
    gl.enable(gl.BLEND);
    gl.depthMask(false);
    for (const entry of later) put(...entry, gl.TRIANGLES, false);
    gl.depthMask(true);
    gl.disable(gl.BLEND);
    if (lines) {
      const last = lines.length / 6 - 1, row = 6 * Math.round(share * last);
      const [x, y, z, u, v, w] = lines.subarray(row, row + 6);
      gl.disable(gl.DEPTH_TEST);
      if (!Number.isNaN(x))
        put(segment, [u - x, v - y, w - z, 0, 0, 1, 0, 0, 0, 0, 1, 0, x, y, z, 1],
          colourOf('--near'), 1, gl.LINES, true);
      gl.enable(gl.DEPTH_TEST);
    }
  }

  const fingers = new Map();
  const apart = () => {
    const [a, b] = [...fingers.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  function zoom(factor) {
    eye.zoom = Math.min(Math.max(eye.zoom * factor, 0.2), 8);
    draw();
  }
  canvas.addEventListener('pointerdown', (e) => {
    fingers.set(e.pointerId, {x: e.clientX, y: e.clientY});
    try { canvas.setPointerCapture(e.pointerId); } catch (_) { /* made by a program */ }
  });
  canvas.addEventListener('pointermove', (e) => {
    const before = fingers.get(e.pointerId);
    if (!before) return;
    const gap = fingers.size === 2 ? apart() : 0;
    fingers.set(e.pointerId, {x: e.clientX, y: e.clientY});
    if (fingers.size === 2) {
      zoom(apart() / Math.max(gap, 1));
      return;
    }
    eye.azimuth -= 0.008 * (e.clientX - before.x);
    eye.elevation = Math.min(Math.max(eye.elevation + 0.008 * (e.clientY - before.y), -1.5), 1.5);
    draw();
  });
  for (const name of ['pointerup', 'pointercancel'])
    canvas.addEventListener(name, (e) => fingers.delete(e.pointerId));
  canvas.addEventListener('wheel', (e) => {
    e.preventDefault();
    zoom(Math.exp(-0.0015 * e.deltaY));
  }, {passive: false});
  function reset() {
    eye = {...START};
    draw();
  }
  canvas.addEventListener('dblclick', reset);
  new ResizeObserver(() => draw()).observe(canvas);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => draw());
  // puts the joints to positions that are the same at all times
  function move(position) {
    robot.values = Float32Array.from([...position, ...position]);
    draw();
  }
  return {draw, reset, move, poses: (time) => poses(time / data.duration).slice(1)};
}
