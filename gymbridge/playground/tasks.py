"""Facts about Playground's registered environments that need no import of Playground."""

from __future__ import annotations

__all__ = ["PLAYGROUND_LIMITS", "PLAYGROUND_SUITES"]

PLAYGROUND_SUITES = {
    "dm_control_suite": {
        "AcrobotSwingup": 1000,
        "AcrobotSwingupSparse": 1000,
        "BallInCup": 1000,
        "CartpoleBalance": 1000,
        "CartpoleBalanceSparse": 1000,
        "CartpoleSwingup": 1000,
        "CartpoleSwingupSparse": 1000,
        "CheetahRun": 1000,
        "FingerSpin": 1000,
        "FingerTurnEasy": 1000,
        "FingerTurnHard": 1000,
        "FishSwim": 1000,
        "HopperHop": 1000,
        "HopperStand": 1000,
        "HumanoidStand": 1000,
        "HumanoidWalk": 1000,
        "HumanoidRun": 1000,
        "PendulumSwingup": 1000,
        "PointMass": 1000,
        "ReacherEasy": 1000,
        "ReacherHard": 1000,
        "SwimmerSwimmer6": 1000,
        "WalkerRun": 1000,
        "WalkerStand": 1000,
        "WalkerWalk": 1000,
    },
    "locomotion": {
        "ApolloJoystickFlatTerrain": 1000,
        "BarkourJoystick": 1000,
        "BerkeleyHumanoidJoystickFlatTerrain": 1000,
        "BerkeleyHumanoidJoystickRoughTerrain": 1000,
        "G1JoystickFlatTerrain": 1000,
        "G1JoystickRoughTerrain": 1000,
        "Go1JoystickFlatTerrain": 1000,
        "Go1JoystickRoughTerrain": 1000,
        "Go1Getup": 300,
        "Go1Handstand": 500,
        "Go1Footstand": 500,
        "H1InplaceGaitTracking": 1000,
        "H1JoystickGaitTracking": 1000,
        "Op3Joystick": 1000,
        "SpotFlatTerrainJoystick": 1000,
        "SpotGetup": 300,
        "SpotJoystickGaitTracking": 1000,
        "T1JoystickFlatTerrain": 1000,
        "T1JoystickRoughTerrain": 1000,
    },
    "manipulation": {
        "AlohaHandOver": 250,
        "AlohaSinglePegInsertion": 500,
        "PandaPickCube": 150,
        "PandaPickCubeOrientation": 150,
        "PandaPickCubeCartesian": 200,
        "PandaOpenCabinet": 150,
        "PandaRobotiqPushCube": 750,
        "LeapCubeReorient": 1000,
        "LeapCubeRotateZAxis": 500,
        "AeroCubeRotateZAxis": 500,
    },
}
"""Names in Playground's registry by suite, and the steps of a batch after which an episode is cut.

That is ceil(`episode_length` / `action_repeat`) of the default configuration in playground 0.2.0.
"""

PLAYGROUND_LIMITS = {
    name: limit for suite in PLAYGROUND_SUITES.values() for name, limit in suite.items()
}
"""The same for all suites together."""
