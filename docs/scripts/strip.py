"""Join films of `gymbridge rollout --video` into `docs/img/strip.gif`, two in a row.

    python docs/scripts/strip.py "Brax: ant=runs/videos/ant-v0.mp4" "EnvPool: lander=…"

Each film is slowed or quickened to the same length, and shown with its name.
"""

import argparse
from pathlib import Path

FRAMES, SECONDS, SIZE, COLORS = 80, 8, (240, 160), 256
PATH = Path(__file__).parents[1] / "img" / "strip.gif"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="+", metavar="NAME=FILE", help="name and film of a task")
    parser.add_argument(
        "--out", type=Path, default=PATH, help="GIF to write (default: %(default)s)"
    )
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    from moviepy.video.io.VideoFileClip import VideoFileClip
    from PIL import Image, ImageDraw, ImageFont

    width, height = SIZE
    rows = -(-len(args.pairs) // 2)
    strip = [Image.new("RGB", (width * 2, height * rows)) for _ in range(FRAMES)]
    for number, pair in enumerate(args.pairs):
        left, top = width * (number % 2), height * (number // 2)
        name, _, file = pair.partition("=")
        with VideoFileClip(file) as film:
            for index, canvas in enumerate(strip):
                frame = film.get_frame(index * film.duration / FRAMES)
                canvas.paste(Image.fromarray(frame).resize(SIZE), (left, top))
                draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(18)
                draw.rectangle((left, top, left + width, top + 26), "black")
                draw.text((left + 8, top + 2), name, "white", font)
    # One palette for all frames, so that they differ only where something moves.
    mosaic = Image.new("RGB", (strip[0].width, 4 * strip[0].height))
    for row in range(4):
        mosaic.paste(strip[row * FRAMES // 4], (0, row * strip[0].height))
    palette = mosaic.quantize(COLORS, Image.Quantize.MAXCOVERAGE)
    first, *others = (
        canvas.quantize(palette=palette, dither=Image.Dither.NONE) for canvas in strip
    )
    duration = SECONDS * 1000 // FRAMES
    first.save(args.out, save_all=True, append_images=others, duration=duration, loop=0)
    print(f"Wrote {args.out}, {args.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
