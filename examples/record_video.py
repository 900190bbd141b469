"""Train a policy briefly, save it, load it, and write a video and a GIF of one episode.

    python examples/record_video.py --env-id EnvPool/CartPole-v1
    python examples/record_video.py --env-id Brax/reacher-v0 --train-steps 200000 --steps 150
    python examples/record_video.py --env-id Brax/reacher-v0 --policy runs/sb3/reacher-v0_sac.zip
    python examples/record_video.py --env-id Brax/ant-v0 --policy runs/Brax/ant-v0/policy.pt

`--policy` takes what `save` of any algorithm of SB3 wrote, such as PPO or SAC, or a `policy.pt` of
the other examples for observations in a Box. A model that SB3 trained in `VecNormalize` needs its
statistics, too: `--vecnormalize FILE`. Give `--env-kwargs` as in training. The last frame goes to a
PNG.

Physics (Brax, Playground, EnvPool's MuJoCo tasks) is drawn by OpenGL: see docs/how-to/rendering.md.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="EnvPool/CartPole-v1", help="id of the task")
    text = 'further keywords of the environment, as JSON, such as \'{"backend": "spring"}\''
    parser.add_argument("--env-kwargs", type=json.loads, default={}, help=text)
    parser.add_argument("--policy", type=Path, help="saved policy; if not given, one is trained")
    text = "statistics that SB3's `VecNormalize.save` wrote, for a policy that was trained in it"
    parser.add_argument("--vecnormalize", metavar="FILE", type=Path, help=text)
    parser.add_argument("--train-steps", type=int, default=50_000, help="steps of training")
    parser.add_argument("--num-envs", type=int, default=16, help="environments of training")
    parser.add_argument("--steps", type=int, default=200, help="maximum frames of the episode")
    parser.add_argument(
        "--size", type=int, nargs=2, metavar=("WIDTH", "HEIGHT"), help="size of frames in pixels"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of training and of the episode")
    parser.add_argument("--out", type=Path, default=Path("runs", "videos"), help="folder")
    return parser.parse_args()


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import numpy as np
    import torch
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
    from moviepy.video.io.ImageSequenceClip import ImageSequenceClip
    from PIL import Image
    from stable_baselines3 import PPO

    import gymbridge  # noqa: F401 (registers the ids)
    from gymbridge.command_line.policies import load_policy
    from gymbridge.errors import GymbridgeError
    from gymbridge.trainers.sb3 import make_vec_env
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[envpool,sb3,examples]'"
    raise SystemExit(f"{error}; {install}") from None


def train(args: argparse.Namespace) -> PPO:
    torch.set_num_threads(1)  # fastest for small networks
    envs = make_vec_env(args.env_id, args.num_envs, seed=args.seed, env_kwargs=args.env_kwargs)
    num_steps = max(1, 1024 // args.num_envs)
    model = PPO("MlpPolicy", envs, n_steps=num_steps, batch_size=256, seed=args.seed)
    model.learn(args.train_steps, progress_bar=True)
    envs.close()
    return model


def draw_episode(
    envs: SyncVectorEnv, policy: Callable[[Any], Any], num_steps: int, seed: int
) -> tuple[list, float]:
    """Return the frames of one episode at most, of a batch of one, and the sum of its rewards."""
    obs, _ = envs.reset(seed=seed)
    frames, total, over = [*envs.render()], 0.0, False
    while not over and len(frames) < num_steps:
        obs, rewards, terminated, truncated, _ = envs.step(policy(obs))
        frames += envs.render()
        total, over = total + rewards[0], terminated[0] or truncated[0]
    return frames, total


def main() -> None:
    args = parse_args()
    if args.vecnormalize and args.policy is None:
        raise SystemExit(
            "--vecnormalize needs a --policy: the one that is trained here needs none."
        )
    args.out.mkdir(parents=True, exist_ok=True)
    name = args.env_id.rpartition("/")[2]
    path = args.policy or args.out / f"{name}.zip"
    if args.policy is None:
        train(args).save(path)
    size = {"render_size": args.size} if args.size else {}
    keywords = {"render_mode": "rgb_array", **size, **args.env_kwargs}
    make = partial(gym.make, args.env_id, **keywords)
    envs = SyncVectorEnv([make], autoreset_mode=AutoresetMode.DISABLED)
    policy = load_policy(path, envs, args.seed, args.vecnormalize)
    frames, total = draw_episode(envs, policy, args.steps, args.seed)
    Image.fromarray(frames[-1]).save(args.out / f"{name}.png")
    clip = ImageSequenceClip(list(np.stack(frames)), fps=envs.metadata["render_fps"])
    clip.write_videofile(str(args.out / f"{name}.mp4"), logger=None)
    clip.write_gif(str(args.out / f"{name}.gif"), logger=None)
    envs.close()
    print(f"Return {total:.1f} in {len(frames) - 1} steps; wrote {path}, {name}.mp4, .gif and .png")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
