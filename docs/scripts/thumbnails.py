"""Make the thumbnails of `docs/tutorials/gallery.md` from what the examples wrote.

    python docs/scripts/thumbnails.py ppo=runs/Brax/inverted_pendulum-v0/learning_curve.png
    python examples/physics_leaves.py > leaves.txt
    python docs/scripts/thumbnails.py physics_leaves=leaves.txt

A picture is made smaller. Of a text, the first lines are drawn. Both go to `docs/img/gallery/`.
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
    from PIL import Image, ImageDraw, ImageFont, ImageOps

    FOLDER.mkdir(parents=True, exist_ok=True)
    for pair in args.pairs:
        name, _, file = pair.partition("=")
        canvas = Image.new("RGB", (WIDTH, HEIGHT), "white")
        if Path(file).suffix == ".txt":
            lines = Path(file).read_text(encoding="utf-8").splitlines()
            text = "\n".join(line[:64] for line in lines)
            ImageDraw.Draw(canvas).multiline_text(
                (8, 8), text, "black", ImageFont.load_default(10), spacing=4
            )
        else:
            with Image.open(file) as picture:
                canvas = ImageOps.pad(picture.convert("RGB"), canvas.size, color="white")
        canvas.quantize(128).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
