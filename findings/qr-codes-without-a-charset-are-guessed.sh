#!/usr/bin/env bash
# Guess: a QR code of a link or a vault's name reads the same everywhere: the writer picks an encoding, the reader finds it.
# Seen: neither segno nor qrcode says which encoding it used, and readers guess. ZBar reads "Käse & Öl" and "Smörgåsbord" from
#   both as Chinese or Japanese; "Tagebücher" is right from segno and wrong from qrcode. ZXing is wrong once ("½ Tasse" of segno).
#   segno packs "Дневник" as Japanese kanji (JIS has Cyrillic letters), from which OpenCV's reader raises UnicodeDecodeError.
#   With segno's `eci=True` the code states UTF-8, and all three readers agree.
# Why it matters: a code that pairs a phone with a daemon holds an address, a key and often a name. Keep what is in it ASCII
#   (percent-encoded), or state UTF-8 by ECI.
# Needs the ZBar library (apt: libzbar0).
source "$(dirname "$0")/support/common.sh"
python_packages segno==1.6.6 qrcode==8.2 pillow==12.3.0 zxing-cpp==3.1.1 pyzbar==0.1.9 opencv-python-headless==5.0.0.93

cat >"$work/run.py" <<'X'
import io

import cv2
import numpy
import qrcode
import segno
import zxingcpp
from PIL import Image
from pyzbar import pyzbar


def by_segno(text, **options):
    into = io.BytesIO()
    segno.make(text, micro=False, **options).save(into, kind="png", scale=8, border=4)
    return numpy.array(Image.open(into).convert("L"))


def by_qrcode(text):
    code = qrcode.QRCode(border=4, box_size=8)
    code.add_data(text)
    return numpy.array(code.make_image().convert("L"))


def by_opencv(image):
    try:
        return cv2.QRCodeDetector().detectAndDecode(image)[0]
    except UnicodeDecodeError:
        return UnicodeDecodeError


readers = {
    "zxing": lambda image: zxingcpp.read_barcodes(image)[0].text,
    "zbar": lambda image: pyzbar.decode(image)[0].data.decode(),
    "opencv": by_opencv,
}
for text in ("Tagebücher", "Käse & Öl", "Smörgåsbord", "Дневник", "½ Tasse"):
    print(text)
    for name, image in {
        "qrcode": by_qrcode(text),
        "segno": by_segno(text),
        "segno, eci": by_segno(text, eci=True, encoding="utf-8"),
    }.items():
        read = {reader: read(image) for reader, read in readers.items()}
        wrong = {reader: got for reader, got in read.items() if got != text}
        print(f"  {name}:", wrong or "right in all")
X
"$python" "$work/run.py" 2>/dev/null | tee "$work/out"
cat >"$work/expected" <<'X'
Tagebücher
  qrcode: {'zbar': 'Tageb羹cher'}
  segno: right in all
  segno, eci: right in all
Käse & Öl
  qrcode: {'zbar': 'Kﾃ､se & ﾃ僕'}
  segno: {'zbar': 'K酲e & 珸'}
  segno, eci: right in all
Smörgåsbord
  qrcode: {'zbar': 'Sm繹rg疇sbord'}
  segno: {'zbar': 'Sm顤g廛bord'}
  segno, eci: right in all
Дневник
  qrcode: {'zbar': 'ﾐ頒ｽﾐｵﾐｲﾐｽﾐｸﾐｺ'}
  segno: {'opencv': <class 'UnicodeDecodeError'>}
  segno, eci: right in all
½ Tasse
  qrcode: {'zbar': '翻 Tasse'}
  segno: {'zxing': 'ｽ Tasse', 'zbar': 'ｽ Tasse'}
  segno, eci: right in all
X
diff "$work/expected" "$work/out" || changed "see the lines above"
