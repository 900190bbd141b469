"""Self-play: one PPO plays both sides of TicTacToe, and then 1,000 games against random moves.

    python examples/self_play.py --total-steps 1000000 --seed 0

Needs: pip install '.[envpool,examples]'.

The players of an environment take turns: a step takes the move of the one and returns the
observation of the other. So what follows a move counts with the opposite sign, the reward of the
next move and the value of the next observation alike. The policy draws legal actions only.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import torch
import tyro
from torch import Tensor, nn
from torch.distributions import Categorical
from tqdm import trange

import gymbridge  # noqa: F401 (registers the ids)

ENV_ID = "EnvPool/TicTacToe-v1"


@dataclass
class Args:
    """One PPO plays both sides of TicTacToe, and then games against random moves."""

    seed: int = 0
    """Seed of everything random."""
    total_steps: int = 1_000_000
    """Moves of both sides, of all environments together."""
    num_envs: int = 128
    """Games played at once."""
    num_steps: int = 16
    """Moves in each game between two updates."""
    epochs: int = 4
    """Passes over the moves in one update."""
    minibatches: int = 4
    """Gradient steps in one pass."""
    learning_rate: float = 2e-3
    """Learning rate of Adam, falling to 0 over total_steps."""
    gae_lambda: float = 0.5
    """Weight of long advantage estimates."""
    clip: float = 0.2
    """How far one update may move the policy."""
    noise: float = 0.4
    """Share of moves that are random in training."""
    entropy_coef: float = 0.03
    """Weight of the entropy bonus, falling to 0 over total_steps."""
    games: int = 1000
    """Games against random moves at the end, half of them from each seat."""


class View(NamedTuple):
    """What the player to move sees; every field leads with the number of environments."""

    obs: Tensor  # (n, size) float32
    legal: Tensor  # (n, actions) bool
    player: Tensor  # (n,) int

    @classmethod
    def read(cls, obs: Tensor, infos: dict[str, Any]) -> "View":
        return cls(obs.flatten(1).float(), infos["legal_action_mask"], infos["current_player"])


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    hidden = [nn.Linear(inputs, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh()]
    return nn.Sequential(*hidden, nn.Linear(128, outputs))


class Agent(nn.Module):
    """A policy over legal actions, and a critic, both for the player to move."""

    def __init__(self, size: int, actions: int, noise: float) -> None:
        super().__init__()
        self.noise = noise
        self.actor, self.critic = mlp(size, actions), mlp(size, 1)

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
        actions = policy.sample()
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
    args: Args, agent: Agent, adam: Any, rollout: Rollout, gains: Tensor, left: float
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


def train(args: Args, envs: Any, agent: Agent) -> None:
    adam = torch.optim.Adam(agent.parameters(), args.learning_rate)
    view = View.read(*envs.reset(seed=args.seed))
    rounds = max(1, args.total_steps // (args.num_envs * args.num_steps))
    for index in trange(rounds):
        left = 1 - index / rounds
        adam.param_groups[0]["lr"] = args.learning_rate * left
        rollout, view = play(envs, agent, view, args.num_steps)
        with torch.no_grad():
            last_values = agent(view)[1]
        gains = estimate_advantages(rollout, view, last_values, args.gae_lambda)
        update(args, agent, adam, rollout, gains, left)


@torch.no_grad()
def meet_random(args: Args, agent: Agent) -> Tensor:
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


def main(args: Args) -> None:
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
    main(tyro.cli(Args))
