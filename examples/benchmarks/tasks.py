"""Tasks of JAX as their libraries have them."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple


class Physics(NamedTuple):
    """A task of JAX as its library has it."""

    env: Any
    wrap: Callable[..., Any]  # the library's wrapper for training
    batch: Callable[..., Any]  # ours, of `num_envs` and keywords

    def functions(self, is_wrapped: bool = False) -> tuple[Any, Any]:
        """Return `reset`, of keys, and `step` of a batch, alone or in the library's wrapper."""
        import jax

        if is_wrapped:
            env = self.wrap(self.env)
            return env.reset, env.step
        return jax.vmap(self.env.reset), jax.vmap(self.env.step)


def brax_task(name: str, backend: str = "generalized") -> Physics:
    from brax import envs as brax_envs
    from brax.envs.wrappers import training

    from gymbridge import BraxVectorEnv

    env = brax_envs.get_environment(name, backend=backend)
    wrap = partial(training.wrap, episode_length=1000)
    return Physics(env, wrap, partial(BraxVectorEnv, name, backend=backend))


def balance(impl: str = "jax", *, graph_mode: Any = None) -> Physics:
    """Return CartpoleBalance, over Warp with one of its ways to keep CUDA graphs."""
    from mujoco_playground import registry, wrapper

    from gymbridge import PlaygroundVectorEnv

    env = registry.load("CartpoleBalance", config_overrides={"impl": impl})
    wrap = partial(wrapper.wrap_for_brax_training, episode_length=1000)
    if graph_mode is None:
        return Physics(env, wrap, partial(PlaygroundVectorEnv, "CartpoleBalance", impl=impl))
    # Playground has no argument for it.
    env._mjx_model = env._mjx_model.tree_replace({"opt._impl.graph_mode": graph_mode})
    return Physics(env, wrap, partial(PlaygroundVectorEnv, env))


def brax_wrapper(env: Any, num_envs: int, device: str = "cpu", **options: Any) -> Any:
    """Return TorchRL's wrapper of an environment of Brax.

    By default it clears all that JAX compiled every 20 steps, ours too. On a GPU this is off.
    """
    from torchrl.envs import BraxWrapper

    if device != "cpu":
        options["cache_clear_frequency"] = False
    return BraxWrapper(env, batch_size=[num_envs], device=device, **options)
