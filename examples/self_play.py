"""Self-play: one PPO plays both sides of TicTacToe, and then 1,000 games against random moves.

    python examples/self_play.py --total-steps 1000000 --seed 0

The players of an environment take turns: a step takes the move of the one and returns the
observation of the other. So what follows a move counts with the opposite sign, the reward of the
next move and the value of the next observation alike. The policy draws legal actions only.
To copy this script, copy `ppo.py`, `ppo_flags.py` and `run_folder.py` as well.
"""

import argparse
import time
from typing import Any, NamedTuple

ENV_ID = "EnvPool/TicTacToe-v1"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default, text in (
        ("seed", 0, "seed of everything random"),
        ("total-steps", 1_000_000, "moves of both sides, of all environments together"),
        ("num-envs", 128, "games played at once"),
        ("num-steps", 16, "moves in each game between two updates"),
        ("epochs", 4, "passes over the moves in one update"),
        ("minibatches", 4, "gradient steps in one pass"),
        ("learning-rate", 2e-3, "learning rate of Adam, falling to 0 over total-steps"),
        ("gae-lambda", 0.5, "weight of long advantage estimates"),
        ("clip", 0.2, "how far one update may move the policy"),
        ("noise", 0.4, "share of moves that are random in training"),
        ("entropy-coef", 0.03, "weight of the entropy bonus, falling to 0 over total-steps"),
        ("games", 1000, "games against random moves at the end, half of them from each seat"),
    ):
        parser.add_argument(f"--{name}", type=type(default), default=default, help=text)
    return parser.parse_args()


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import torch
    from ppo import draw, mlp
    from torch import Tensor, nn
    from torch.distributions import Categorical

    import gymbridge  # noqa: F401 (registers the ids)
except ImportError as error:
    raise SystemExit(f"{error}; in a checkout of gymbridge: pip install '.[all]'") from None


class View(NamedTuple):
    """What the player to move sees; every field leads with the number of environments."""

    obs: Tensor  # (n, size) float32
    legal: Tensor  # (n, actions) bool
    player: Tensor  # (n,) int

    @classmethod
    def read(cls, obs: Tensor, infos: dict[str, Any]) -> "View":
        return cls(obs.flatten(1).float(), infos["legal_action_mask"], infos["current_player"])


class Agent(nn.Module):
    """A policy over legal actions, and a critic, both for the player to move."""

    def __init__(self, size: int, actions: int, noise: float) -> None:
        super().__init__()
        self.noise = noise
        self.actor, self.critic = mlp(size, 128, 128, actions), mlp(size, 128, 128, 1)

    def forward(self, view: View) -> tuple[Categorical, Tensor]:
        chosen = self.actor(view.obs).masked_fill(~view.legal, -1e9).softmax(-1)
        anything = view.legal / view.legal.sum(-1, keepdim=True)
        # Both sides see what a weak opponent does, and learn to answer it.
        probs = (1 - self.noise) * chosen + self.noise * anything
        return Categorical(probs, validate_args=False), self.critic(view.obs).squeeze(-1)


class Rollout(NamedTuple):
    """Moves in order; every tensor leads with (num_steps, num_envs)."""

    views: View  # before the move
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    rewards: Tensor  # of the player who moved
    ended: Tensor  # bool


@torch.no_grad()
def play(envs: Any, agent: Agent, view: View, num_steps: int) -> tuple[Rollout, View]:
    """Return moves of both sides by the agent, and the view after them."""
    steps = []
    for _ in range(num_steps):
        policy, values = agent(view)
        actions = draw(policy)
        before = view
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        view = View.read(obs, infos)
        acted = actions, policy.log_prob(actions), values
        steps.append((before, *acted, rewards, terminated | truncated))
    views, *others = zip(*steps, strict=True)
    stacked = View(*map(torch.stack, zip(*views, strict=True)))
    return Rollout(stacked, *map(torch.stack, others)), view


def estimate_advantages(rollout: Rollout, last: View, last_values: Tensor, decay: float) -> Tensor:
    """Return generalised advantages, each of the player who moved, without a discount."""
    next_values = torch.cat([rollout.values[1:], last_values[None]])
    next_players = torch.cat([rollout.views.player[1:], last.player[None]])
    # What follows counts for the other player, unless the same one moves again or the game is over.
    signs = torch.where(next_players == rollout.views.player, 1.0, -1.0) * ~rollout.ended
    advantages = rollout.rewards + signs * next_values - rollout.values
    for step in reversed(range(len(advantages) - 1)):
        advantages[step] += decay * signs[step] * advantages[step + 1]
    return advantages


def update(
    args: Any, agent: Agent, adam: Any, rollout: Rollout, gains: Tensor, left: float
) -> None:
    """Improve the policy and the critic on the moves of both sides."""
    targets = (gains + rollout.values).flatten()
    views = View(*(part.flatten(0, 1) for part in rollout.views))
    actions, old_log_probs, gains = (
        part.flatten() for part in (rollout.actions, rollout.log_probs, gains)
    )
    for _ in range(args.epochs):
        for batch in torch.randperm(len(actions)).chunk(args.minibatches):
            policy, values = agent(View(*(part[batch] for part in views)))
            ratio = (policy.log_prob(actions[batch]) - old_log_probs[batch]).exp()
            gain = gains[batch]
            clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
            loss = -torch.minimum(gain * ratio, gain * clipped).mean()
            loss += 0.5 * (values - targets[batch]).square().mean()
            loss -= left * args.entropy_coef * policy.entropy().mean()
            adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            adam.step()


def train(args: Any, envs: Any, agent: Agent) -> None:
    adam, start = torch.optim.Adam(agent.parameters(), args.learning_rate), time.perf_counter()
    view = View.read(*envs.reset(seed=args.seed))
    rounds = max(1, args.total_steps // (args.num_envs * args.num_steps))
    for index in range(rounds):
        left = 1 - index / rounds
        adam.param_groups[0]["lr"] = args.learning_rate * left
        rollout, view = play(envs, agent, view, args.num_steps)
        with torch.no_grad():
            last_values = agent(view)[1]
        gains = estimate_advantages(rollout, view, last_values, args.gae_lambda)
        update(args, agent, adam, rollout, gains, left)
    steps, seconds = rounds * args.num_steps * args.num_envs, time.perf_counter() - start
    print(f"{ENV_ID}: {steps:,} moves in {seconds:.0f} s")


@torch.no_grad()
def meet_random(args: Any, agent: Agent) -> Tensor:
    """Return the rewards of the agent's likeliest moves against random ones, (games,).

    It has the first move in the first half of the games.
    """
    envs: Any = gym.make_vec(ENV_ID, args.games, autoreset_mode="NextStep", arrays="torch")
    view = View.read(*envs.reset(seed=args.seed + args.num_envs))
    is_second = torch.arange(args.games) >= args.games // 2
    seats = torch.where(is_second, 1 - view.player, view.player)
    results, running = torch.zeros(args.games), torch.ones(args.games, dtype=torch.bool)
    while running.any():
        random = torch.rand(view.legal.shape).masked_fill(~view.legal, -1).argmax(1)
        chosen = torch.where(view.player == seats, agent(view)[0].mode, random)
        obs, _, terminated, truncated, infos = envs.step(chosen)
        own = infos["rewards"].gather(1, seats[:, None].long()).squeeze(1)
        results += torch.where(running, own, 0)
        running &= ~(terminated | truncated)
        view = View.read(obs, infos)
    envs.close()
    return results


def main() -> None:
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # fastest for small networks
    envs: Any = gym.make_vec(ENV_ID, args.num_envs, autoreset_mode="SameStep", arrays="torch")
    space = envs.single_observation_space
    agent = Agent(torch.zeros(space.shape).numel(), int(envs.single_action_space.n), args.noise)
    train(args, envs, agent)
    envs.close()
    for seat, results in zip(("first", "second"), meet_random(args, agent).chunk(2), strict=True):
        won, lost = int((results > 0).sum()), int((results < 0).sum())
        drawn = len(results) - won - lost
        print(f"Moving {seat}: won {won}, drew {drawn}, lost {lost} of {len(results)} games")


if __name__ == "__main__":
    main()
