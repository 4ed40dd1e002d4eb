"""A camera: pictures of a body in its simulator's states, drawn without a screen.

It needs MuJoCo and an OpenGL driver. There are drivers that draw in software, as Mesa's do.
"""

from __future__ import annotations

import copy
import importlib
import os
import subprocess
import sys
from functools import cache

import numpy as np
from gymnasium.error import DependencyNotInstalled

from .envs import DynamicsEnv, Task

PACKAGES = "libegl1 libgl1-mesa-dri libopengl0"  # of Debian: EGL, and Mesa's drawing in software
PAPER, DARK, LIGHT = (250, 250, 248), (205, 211, 217), (225, 229, 233)  # the sky, and the floor's squares


@cache
def works(driver: str) -> bool:
    """Whether an OpenGL driver, by its name in the variable ``MUJOCO_GL``, draws without a screen here.

    That only shows when it is used, and it may take the process along when it fails: so another one tries it.
    """
    trial = "import mujoco; mujoco.Renderer(mujoco.MjModel.from_xml_string('<mujoco/>')).render()"
    environ = {**os.environ, "MUJOCO_GL": driver}
    return subprocess.run([sys.executable, "-c", trial], env=environ, capture_output=True).returncode == 0


def choose_driver() -> None:
    """Find an OpenGL driver that needs no screen, and name it to MuJoCo in the variable ``MUJOCO_GL``.

    Raises:
        DependencyNotInstalled: if there is none.
    """
    wanted = os.environ.get("MUJOCO_GL")
    if sys.platform != "linux" and not wanted:
        return  # elsewhere MuJoCo's own choice needs no screen
    for name in [wanted] if wanted else ["egl", "osmesa", "glfw"]:
        if works(name):
            os.environ["MUJOCO_GL"] = name
            return
    fault = f"MUJOCO_GL={wanted} does not work" if wanted else "neither EGL nor OSMesa works"
    raise DependencyNotInstalled(f"a picture needs OpenGL, and {fault} here: apt-get install {PACKAGES}")


class Camera:
    """Looks along y at a body on a floor of squares of one metre, and goes along with it.

    Where the task is to go to a goal, it stays at the origin, so that the goal is seen. The projection is
    orthographic: a metre along x is as long everywhere in the picture.

    Args:
        family: a family with a body, which is to say with an engine's ``model``.
        width: of the pictures, in pixels.

    Raises:
        DependencyNotInstalled: if nothing here can draw.
        ValueError: if the driver cannot draw pictures of this size.
    """

    def __init__(self, family: DynamicsEnv, width: int):
        choose_driver()
        import mujoco

        # MuJoCo chose its driver when it was imported, perhaps long ago: let it choose again.
        importlib.reload(sys.modules[mujoco.Renderer.__module__].gl_context)

        self.engine = mujoco
        self.model = copy.copy(family.model)  # nobody else's, so that it can be dressed up
        self.data = mujoco.MjData(self.model)
        self.body = self.model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE  # the rest is floor
        roams = self.model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE  # or keeps to the plane of x and z
        self.follows = "goal" not in family.task
        metres = 4.0 if not roams else 5.0 if self.follows else 8.0  # how much of x is seen
        self.width, self.height = width, round(width * (0.6 if roams else 0.46))
        self.pixels_per_metre = width / metres

        self.view = mujoco.MjvCamera()
        self.view.azimuth, self.view.elevation, self.view.distance = 90.0, -35.0 if roams else -12.0, 10.0
        self.view.lookat[:] = 0.0, 0.0, 0.3 if roams else 0.62
        self.view.orthographic = 1
        self.model.vis.global_.fovy = self.height / self.pixels_per_metre  # metres, since orthographic
        self.model.vis.global_.offwidth, self.model.vis.global_.offheight = self.width, self.height
        self._dress(0.0 if roams else 1.0)
        try:
            self.renderer = mujoco.Renderer(self.model, self.height, self.width)
        except mujoco.FatalError as error:
            size = f"{self.width} x {self.height} pixels"
            raise ValueError(f"OpenGL draws no picture of {size} here: {error}") from error

    def _dress(self, half_width: float) -> None:
        """Plain colours in a soft light, which are easy to read and to compress."""
        model, lamp = self.model, self.model.vis.headlight
        for i, kind in enumerate(model.tex_type):
            pixels = model.tex(i).data  # (H, W, 3)
            sky = kind == self.engine.mjtTexture.mjTEXTURE_SKYBOX
            pixels[:] = PAPER if sky else np.where(pixels[..., :1] < 100, DARK, LIGHT)
        model.mat_texuniform[:], model.mat_texrepeat[:], model.mat_reflectance[:] = True, 1.0, 0.0
        model.geom_matid[self.body] = -1
        model.geom_rgba[~self.body] = 1.0
        model.geom_size[~self.body] = 0.0, half_width, 1.0  # along x and y; 0 has no end
        model.light_diffuse[:], model.light_specular[:], model.light_pos[:, 2] = 0.4, 0.0, 4.0
        lamp.ambient[:], lamp.diffuse[:], lamp.specular[:] = 0.45, 0.3, 0.0
        model.vis.quality.shadowsize = 1024

    @property
    def leftmost(self) -> float:
        """The x at the left edge of the last picture, in metres."""
        return float(self.view.lookat[0]) - self.width / self.pixels_per_metre / 2

    @property
    def rightmost(self) -> float:
        """The x at its right edge."""
        return self.leftmost + self.width / self.pixels_per_metre

    def shoot(self, state: np.ndarray, task: Task, colour: tuple[float, float, float]) -> np.ndarray:
        """A picture (H, W, 3), uint8, of the body in ``state``, and of the goal if the task has one."""
        engine, model, data = self.engine, self.model, self.data
        engine.mj_setState(model, data, state, engine.mjtState.mjSTATE_FULLPHYSICS)
        engine.mj_kinematics(model, data)
        torso = data.xpos[1, :2]
        model.light_pos[:, :2] = torso  # shadows are computed near a light only
        if self.follows:
            self.view.lookat[:2] = torso
        engine.mj_forward(model, data)
        model.geom_rgba[self.body] = *colour, 1.0
        self.renderer.update_scene(data, self.view)
        if "goal" in task:
            scene = self.renderer.scene
            size, place = np.array([0.2, 0.01, 0.0]), np.append(task["goal"], 0.01)
            shape, orange = engine.mjtGeom.mjGEOM_CYLINDER, np.array([0.84, 0.37, 0.0, 1.0], np.float32)
            engine.mjv_initGeom(scene.geoms[scene.ngeom], shape, size, place, np.eye(3).ravel(), orange)
            scene.ngeom += 1
        return self.renderer.render()

    def close(self) -> None:
        self.renderer.close()
