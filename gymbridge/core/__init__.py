"""What every engine shares: the rule of episodes, requests, infos, arrays, and the batch itself."""
