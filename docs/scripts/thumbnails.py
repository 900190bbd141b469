"""Make the thumbnails of `docs/gallery.md` from what the examples wrote.

    python docs/scripts/thumbnails.py ppo=runs/Brax/inverted_pendulum-v0/learning_curve.png

A picture is made smaller; of a tall one, only the top is kept. It goes to `docs/img/gallery/`.
"""

import argparse
from pathlib import Path

WIDTH, HEIGHT = 360, 240
FOLDER = Path(__file__).parents[1] / "img" / "gallery"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="+", metavar="NAME=FILE", help="example and what it wrote")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    from PIL import Image, ImageOps

    FOLDER.mkdir(parents=True, exist_ok=True)
    for pair in args.pairs:
        name, _, file = pair.partition("=")
        with Image.open(file) as picture:
            top = picture.convert("RGBA").crop((0, 0, picture.width, min(picture.size)))
        small = ImageOps.pad(top, (WIDTH, HEIGHT), color=(0, 0, 0, 0))
        small.quantize(128).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
