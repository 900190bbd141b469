"""What environments whose states are like Brax's share: Brax's own and Playground's."""
